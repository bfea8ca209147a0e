"""nightly: the history of past runs, thresholds of CI."""
