"""promptfoo: results of `promptfoo eval`."""
