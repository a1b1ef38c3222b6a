"""Translator: translates texts and returns attention; ensembles and reranking."""
