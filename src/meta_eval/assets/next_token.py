"""Choices told apart by the next token alone, a prompt a doc; prepare puts a copy beside the YAML of such a task.

Of the tokens of a doc's choices the likeliest is generated. Of those that are equally likely it is the first choice's,
as where likelihoods are compared: half precision makes such ties, and an engine takes any of them.
"""

from typing import Any

from lm_eval.api.task import ConfigurableTask

# Nats by which each choice is held back behind the one before it. Far under the steps of half precision, over the noise
# of single precision: it decides nothing but ties.
_STEP = 1e-5


class NextToken(ConfigurableTask):  # type: ignore[misc]
    """A YAML task of choices that generates one of the doc's ``choice_token_ids``.

    What scores it stands beside the YAML's ``process_results``, which scores likelihoods, and is named ``…_of_token``;
    of a task without one the right choice is the doc's ``choice_gold``.
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
        if scorer is None:  # a task of lm-eval's own: its accuracies, of choices that are equally long one number
            right = doc["continuations"][doc["choice_gold"]].strip()
            return dict.fromkeys(self._metric_fn_list, float(results[0].strip() == right))
        return scorer.__globals__[f"{scorer.__name__}_of_token"](doc, results)
