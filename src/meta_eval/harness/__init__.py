"""Reads the files that lm_eval writes.

`output_index` finds them. `results_file`, `raw_samples`, `sample_parser` and `samples` read them. `scores` averages the
samples again, and `run` puts the tasks of a model together. report, compare and verify --regrade read through this.
"""
