"""One update, the loop around it, validation, and exact resume."""
