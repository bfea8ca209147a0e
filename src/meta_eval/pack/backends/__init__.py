"""Backends: each has a class and a file. A registry lists them."""
