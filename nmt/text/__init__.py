"""Normalisation, vocabularies and tokenizers."""
