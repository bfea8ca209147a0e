"""The version of meta-eval."""

__version__ = "0.1.0"
