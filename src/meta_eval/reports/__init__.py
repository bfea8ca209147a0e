"""Documents of what commands found, and the views that show them.

Views read nothing but the document, so that terminal, Markdown, JSON and HTML cannot say different things.
"""
