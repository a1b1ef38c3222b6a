"""Config engine: validated classes, YAML with line numbers, error messages, recipes."""
