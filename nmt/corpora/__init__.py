"""Corpora: catalogue and download, reading, encoded shards, batches, reports."""
