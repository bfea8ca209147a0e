"""Does it hold? A run beside Meta's answers (`judge`) or another run (`compare`): drops of scores, one rule (`decide`).

`task_comparison`: what is compared, and which doc with which. `numbers`: published scores. `alarms`: how runs go
wrong. `filters` that disagree. `groups` of tasks. `gate`: what is asked. `drafts`: tasks before the decision, and it.
`model`: what all of it comes to.
"""
