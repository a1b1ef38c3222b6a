"""Texts as users have them: documents, markup and placeholders around the sentences of a model."""
