"""Beam search over any model, and the scoring of given translations."""
