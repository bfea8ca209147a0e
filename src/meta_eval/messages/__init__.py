"""What is said to the user: errors, notes and progress, foreign text made visible, no credentials."""
