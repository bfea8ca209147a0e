"""Requests go out as a file, answers come in as files, from any engine; docs/reference/files.md has the format."""
