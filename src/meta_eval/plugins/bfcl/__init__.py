"""bfcl: results and scores of the Berkeley Function Calling Leaderboard."""
