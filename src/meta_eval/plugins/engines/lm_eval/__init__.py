"""The model classes of lm-eval."""
