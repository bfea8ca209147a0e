"""Plug-ins of meta-eval. Each is a folder that can be deleted."""
