"""Parallel corpora: file formats, catalogue, download, checks and cleaning."""
