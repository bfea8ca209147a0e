"""The version of meta-eval."""

__version__ = "1.0.0"
