"""Export of trained models to files that other inference engines run."""
