"""Attention weights as data, picture, terminal drawing and word alignments."""
