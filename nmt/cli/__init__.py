"""The command line, one file per command. Only this package knows flags."""
