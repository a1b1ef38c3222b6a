"""nmt: train, run, measure and explain attention-based machine translation."""

__version__ = "0.1.0"
