"""The verb of this plug-in."""

from meta_eval.sockets import Verb

LOAD = Verb(
    "load",
    "Check whether a server loses answers when it is full.",
    "meta_eval.plugins.load.load_verb:load",
    call="meta_eval.plugins.load.api:load",
    resumes=True,
    panel="Judge",
)
