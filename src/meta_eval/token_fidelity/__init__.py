"""Is it the same model? What a copy says of every token of the recorded answers (docs/guides/same_model.md)."""
