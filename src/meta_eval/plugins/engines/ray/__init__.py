"""vLLM on a Ray cluster."""
