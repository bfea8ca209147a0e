"""Checks of the pack, the machine and the engine that find problems before generation."""
