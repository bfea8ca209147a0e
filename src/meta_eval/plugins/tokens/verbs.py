"""The verbs of this plug-in."""

from meta_eval.sockets import Verb

FIDELITY = Verb(
    "fidelity",
    "Check whether two models are the same, token by token.",
    "meta_eval.plugins.tokens.fidelity_verb:fidelity",
    call="meta_eval.plugins.tokens.api:fidelity",
    resumes=True,
    panel="Judge",
    next_after={"forced": "{pack} --answers ANSWERS"},
)
AUDIT = Verb(
    "audit",
    "Check by its answers whether an endpoint serves a model.",
    "meta_eval.plugins.tokens.audit_verb:audit",
    call="meta_eval.plugins.tokens.api:audit",
    panel="Judge",
    next_after={"score": "--pack {pack}"},
)
