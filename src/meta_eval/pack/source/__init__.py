"""Sources of rows: the hub, a local folder and the embedded sample."""
