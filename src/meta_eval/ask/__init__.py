"""run: sends the requests of a pack to a model on any backend, and keeps every answer."""
