"""A recurrent model as one HTML page that translates, and explains how, without a server."""
