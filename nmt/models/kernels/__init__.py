"""Fast twins of what the models compute: the same numbers and gradients, made another way."""
