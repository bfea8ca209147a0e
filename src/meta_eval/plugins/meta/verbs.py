"""The verb of this plug-in."""

from meta_eval.sockets import Verb

TASKS = Verb(
    "tasks",
    "List the tasks, show a task, or start a new one.",
    "meta_eval.plugins.meta.tasks_verb:app",
    panel="Extend",
)
