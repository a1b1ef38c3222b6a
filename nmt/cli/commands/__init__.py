"""The commands of `nmt`, one file for each."""
