"""Explanations of a run: attention maps, pages, word alignments, curves and a report."""
