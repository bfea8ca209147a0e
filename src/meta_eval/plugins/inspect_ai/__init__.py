"""inspect_ai: logs of the harness inspect_ai."""
