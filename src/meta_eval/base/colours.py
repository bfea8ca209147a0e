"""Colours that can be read on a black and on a white terminal."""

# What to look at, and no error. Yellow is not readable on white.
CAUTION = "dark_orange3"
