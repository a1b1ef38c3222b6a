"""Options, errors, input and output."""
