"""The verb of this plug-in."""

from meta_eval.sockets import Verb

EQUALITY = Verb(
    "equality",
    "Test whether two endpoints serve the same model.",
    "meta_eval.plugins.equality.equality_verb:equality",
    call="meta_eval.plugins.equality.api:equality",
    resumes=True,
    panel="Judge",
)
