"""Translator: texts in, translations with attention out; ensembles and reranking."""
