"""Run directories: layout, checkpoints, lock, run card, metrics, packed runs."""
