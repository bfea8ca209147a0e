"""The generated pages of docs/, each with its own module."""
