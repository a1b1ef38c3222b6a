"""What the commands share: options, errors, input and output."""
