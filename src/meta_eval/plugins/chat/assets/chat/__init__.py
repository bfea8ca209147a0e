"""Graders of chat answers. Packs contain copies."""
