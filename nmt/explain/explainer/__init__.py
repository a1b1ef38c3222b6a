"""A recurrent model in one HTML page that translates and explains each step, without a server."""
