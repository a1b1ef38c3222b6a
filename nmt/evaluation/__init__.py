"""Scores by sacreBLEU, with confidence intervals and paired comparison."""
