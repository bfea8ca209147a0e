"""Compares two models token by token over the recorded answers (docs/plugins/tokens/same_model.md)."""
