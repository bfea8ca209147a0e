"""Is it the same model? What a copy says of every token of the recorded answers; docs/running.md says how to ask."""
