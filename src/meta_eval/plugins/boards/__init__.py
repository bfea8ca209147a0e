"""boards: leaderboards and the details of lighteval."""
