"""lm-eval's command line with a model of ours: its own dummy model raises in some versions."""

import lm_eval.models  # noqa: F401 (what it registers is asked for)
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


@register_model("tiny")
class Tiny(LM):
    def __init__(self, **_):
        super().__init__()

    def generate_until(self, requests, disable_tqdm=False):  # noqa: ARG002
        return ["lol" for _ in requests]

    def loglikelihood(self, requests, disable_tqdm=False):  # noqa: ARG002
        return [(-float(len(request.args[1])), False) for request in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):  # noqa: ARG002
        return [-float(len(request.args[0])) for request in requests]


if __name__ == "__main__":
    cli_evaluate()
