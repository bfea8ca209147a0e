"""Recorded runs as batch files: requests to a chat endpoint, and their results."""
