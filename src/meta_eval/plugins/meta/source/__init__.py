"""Sources of rows: a local folder and the embedded sample."""
