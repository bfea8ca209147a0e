"""All that knows lm-eval: its evaluator, the files that it writes, its settings of generation.

`output_index` finds files. `results_file`, `sample_files` and `sample_parser` read them. `scores` averages the samples
again, and `lm_eval_run` puts the tasks of a model together. report, compare and verify --regrade read through this.
"""
