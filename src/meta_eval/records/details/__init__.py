"""Details of runs in parquet: the first Open LLM Leaderboard's and lighteval's."""
