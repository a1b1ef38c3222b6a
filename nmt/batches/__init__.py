"""Batches of encoded sentence pairs: stores, plans, mixtures, noise, the loader."""
