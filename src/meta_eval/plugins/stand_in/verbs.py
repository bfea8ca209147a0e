"""The verb of this plug-in."""

from meta_eval.sockets import Verb

STAND_IN = Verb(
    "stand-in",
    "Serve a pack's recorded answers, some of them spoiled.",
    "meta_eval.plugins.stand_in.stand_in_verb:stand_in",
    panel="Run",
)
