"""run: ask a model what a pack asks, on whatever it runs, without losing an answer."""
