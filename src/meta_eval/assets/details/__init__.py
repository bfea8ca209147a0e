"""How details of recorded runs are graded again: copied into packs, as plain lm-eval tasks."""
