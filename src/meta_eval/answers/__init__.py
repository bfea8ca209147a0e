"""Requests go out as a file, answers come in as files, from any engine; the format is in docs/reference/files.md."""
