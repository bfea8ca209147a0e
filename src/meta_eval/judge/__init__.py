"""From two runs to a decision, in five words: pair, drop, alarm, gate, decision.

A **pair** is a task in baseline and candidate, doc by doc (`pair`). The baseline is another run, or the answers that
were recorded. The **drop** is what the candidate lost against it, with an interval (`drops`). Cut answers, other
metrics and subtasks have figures of their own (`cut_answers`, `figures`). An **alarm** says what no score shows: what
is wrong with a run (`run_alarms`), or with the comparison (`pair_alarms`). A plug-in adds alarms as evidence
(`evidence`). The **gate** has the rules: which tasks, which margin, which answers are not accepted (`gate`). The
**decision** follows from pairs, alarms and gate: an outcome for each task, and SHIP, DON'T SHIP or UNDECIDED over all
(`decide`). `runs` leads from runs to it, and `decision` has what reports show. `plan` tells before a run what its
decision will be able to show.
"""
