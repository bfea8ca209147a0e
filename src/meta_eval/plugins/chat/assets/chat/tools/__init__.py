"""Grader of tool calls. Packs contain a copy."""
