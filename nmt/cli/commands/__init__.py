"""The commands of `nmt`, one file per command or group of commands."""
