"""Encoded sentence pairs as batches: stores, plans, mixtures, noise, the loader."""
