"""evalplus: results of EvalPlus."""
