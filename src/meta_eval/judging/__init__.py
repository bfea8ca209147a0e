"""Does it hold? A run beside Meta's answers (`judge`) or another run (`compare`): drops of scores, one rule (`decide`).

`sides`: whose docs are compared, and which with which. `numbers`: scores beside published ones. `alarms`: how runs go
wrong. `filters` that disagree. `groups` of tasks. `gate`: what is asked. `drafts`: tasks before the decision, and it.
`model`: what all of it comes to.
"""
