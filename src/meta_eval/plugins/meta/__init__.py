"""meta: Meta's evals datasets, their catalog and joins."""
