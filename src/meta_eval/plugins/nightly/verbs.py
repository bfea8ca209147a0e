"""The verbs of this plug-in."""

from meta_eval.sockets import Verb

HISTORY = Verb(
    "history",
    "Keep past runs, and judge the newest by all of them.",
    "meta_eval.plugins.nightly.history_verb:app",
    panel="Judge",
)
THRESHOLDS = Verb(
    "thresholds",
    "Make a gate of CI's score thresholds, or some of past runs.",
    "meta_eval.plugins.nightly.thresholds_verb:thresholds",
    panel="Judge",
)
