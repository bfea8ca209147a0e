"""simple_evals: results of simple-evals."""
