"""Answers from the record, in a model's place: a road through every command without a GPU."""
