"""chat: endpoints that answer messages, and their batch files."""
