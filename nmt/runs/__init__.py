"""The run directory: layout, checkpoints, lock, run card."""
