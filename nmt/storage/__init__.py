"""Atomic file writes, reads with size limits, checksums."""
