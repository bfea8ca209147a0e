"""Writes requests to files and reads answers from files, for any engine. The format is in docs/reference/files.md."""
