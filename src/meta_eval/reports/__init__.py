"""Documents of what commands found, and the views that show them.

Views read only the document. So terminal, Markdown, JSON and HTML say the same.
"""
