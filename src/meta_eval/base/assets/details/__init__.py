"""Tasks of lm-eval that grade details of recorded runs again. They are copied into packs."""
