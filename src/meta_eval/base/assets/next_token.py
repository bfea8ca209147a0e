"""Answers choices by the next token alone, with a prompt per doc. prepare copies this file beside the YAML of such a
task.

The likeliest of the tokens of a doc's choices is generated. In a tie the first choice wins, as with log-likelihoods.
Half precision often causes ties, and engines resolve them arbitrarily.
"""

from typing import Any

from lm_eval.api.task import ConfigurableTask

# Nats subtracted per choice after the first. Far below the steps of half precision and above the noise of single
# precision, so it decides only ties.
_STEP = 1e-5


class NextToken(ConfigurableTask):  # type: ignore[misc]
    """A YAML task of choices that generates one of the doc's ``choice_token_ids``.

    Its scoring function is beside the YAML's ``process_results`` and is named ``…_of_token``. Without it, the right
    choice is the doc's ``choice_gold``.
    """

    def __init__(self, config: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(config={key: value for key, value in (config or {}).items() if key != "class"}, **kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> Any:
        request = super().construct_requests(doc, ctx, **kwargs)
        context, settings = request.arguments
        ids = list(doc["choice_token_ids"])
        bias = {token: -_STEP * place for place, token in enumerate(ids)}
        request.arguments = (context, {**settings, "allowed_token_ids": ids, "logit_bias": bias})
        return request

    def process_results(self, doc: dict[str, Any], results: list[str]) -> Any:
        scorer = self.config.process_results
        if scorer is None:  # a task of lm-eval: its accuracies, which are equal for choices of equal length
            right = doc["continuations"][doc["choice_gold"]].strip()
            return dict.fromkeys(self._metric_fn_list, float(results[0].strip() == right))
        return scorer.__globals__[f"{scorer.__name__}_of_token"](doc, results)
