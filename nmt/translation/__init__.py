"""Translator: texts in, translations with their attention out; ensembles, reranking, MBR."""
