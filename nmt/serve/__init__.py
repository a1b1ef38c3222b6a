"""Translation over HTTP, by LibreTranslate's API and nmt's own; waiting sentences are batched."""
