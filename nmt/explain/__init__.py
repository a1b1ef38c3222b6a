"""Explanations of a run: maps, pages, pictures, word alignments, curves, its report."""
