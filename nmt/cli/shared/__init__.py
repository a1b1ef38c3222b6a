"""Options, errors, input and output that the commands share."""
