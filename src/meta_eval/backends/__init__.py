"""The backends that can answer a pack: a class and a file each, and one registry."""
