"""A trained model as files that other engines run."""
