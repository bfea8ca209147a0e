"""The judge's own noise: how often a model that grades gives the same answer another grade, and what that costs."""
