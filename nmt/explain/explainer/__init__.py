"""A recurrent model as one HTML page that translates, and shows how, without a server."""
