"""Compares two models token by token over the recorded answers (docs/guides/same_model.md)."""
