"""A file a command: parse, call one function, print, exit. Flags exist here only."""
