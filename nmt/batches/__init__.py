"""Batches of encoded sentence pairs: encoding, storing, planning, mixing, altering, loading."""
