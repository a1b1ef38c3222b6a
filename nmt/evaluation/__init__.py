"""Metrics of translation quality, with confidence intervals and paired significance tests."""
