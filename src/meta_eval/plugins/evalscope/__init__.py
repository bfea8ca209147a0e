"""evalscope: reviews and predictions of the harness EvalScope."""
