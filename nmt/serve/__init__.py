"""Translation over HTTP: LibreTranslate's API and its own, in batches of what waits."""
