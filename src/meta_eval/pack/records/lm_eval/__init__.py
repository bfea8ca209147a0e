"""Runs that lm-eval recorded with ``--log_samples``, the Open LLM Leaderboard 2 among them."""
