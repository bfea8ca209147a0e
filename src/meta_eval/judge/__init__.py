"""Compares a run with recorded answers (`judge`) or with another run (`compare`), and decides (`decide`).

`task_comparison` pairs docs. `numbers` has published scores. `alarms` finds problems of runs. `filters` finds filters
that disagree. `groups` judges groups of tasks. `gate` has the rules. `task_assessment` joins tasks to the decision.
`judgement` is the result.
"""
