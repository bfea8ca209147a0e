"""Messages to the user: errors, notes, progress, escaping of foreign text, and redaction of credentials."""
