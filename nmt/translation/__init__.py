"""Translator: text in, Translation out; whole files, unknown words."""
