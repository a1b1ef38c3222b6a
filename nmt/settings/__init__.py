"""The config engine: checked classes, YAML with places, messages, documents."""
