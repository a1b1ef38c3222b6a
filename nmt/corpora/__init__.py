"""Corpora: readers of formats, catalogue, download, checks, cleaning."""
