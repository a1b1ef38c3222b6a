"""Training: updates, the training loop, validation, logs, exact resume."""
