"""A kind of requests: the log-likelihood of a whole text, which tasks of perplexity ask for.

Name it in your package's pyproject.toml. Then `run`, `export` and `grade` take such tasks:

    [project.entry-points."meta_eval.request_kinds"]
    rolling = "rolling_kind:Rolling"

A backend answers these requests if its `kinds` hold `rolling`. The answer is the only one of its `choices`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from meta_eval.sockets import Answer, Encoder, Request, RequestKind


class Rolling(RequestKind):
    name = "rolling"
    refusal = "does not say how likely a whole text is"

    def takes(self, output_type: str, asked_as: str) -> bool:
        return output_type == "loglikelihood_rolling"

    def build(self, request: Request, instances: Sequence[Any], task: Any) -> Request:
        return replace(request, prompt="", continuations=(instances[0].args[0],))

    def explain_unfit(self, request: Request, answer: Answer) -> str | None:
        return None if len(answer.choices) == 1 else "it holds no log-likelihood of the text"

    def replay(self, answers: Sequence[Answer], task: Any) -> Mapping[int, Sequence[float]]:
        return {0: [logprob for answer in answers for logprob, _ in answer.choices]}

    def format_fields(self, request: Request) -> dict[str, Any]:
        return {"continuations": request.continuations}

    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterator[Request]:
        for request in requests:
            ids = encoder.encode_text(request.continuations[0])
            yield replace(request, prompt_ids=encoder.empty_prompt, continuation_ids=[ids])
