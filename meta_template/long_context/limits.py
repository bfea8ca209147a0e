"""A token limit for each doc of a subset whose benchmarks have different limits."""

from lm_eval.api.task import ConfigurableTask


class LimitPerDoc(ConfigurableTask):
    """A YAML task that lowers the YAML's token limit to ``max_gen_toks`` of each doc."""

    def __init__(self, config: dict | None = None, **kwargs) -> None:
        super().__init__(config={key: value for key, value in (config or {}).items() if key != "class"}, **kwargs)

    def construct_requests(self, doc: dict, ctx: str, **kwargs):
        request = super().construct_requests(doc, ctx, **kwargs)
        context, settings = request.arguments
        limit = min(doc["max_gen_toks"], settings.get("max_gen_toks", doc["max_gen_toks"]))
        request.arguments = (context, {**settings, "max_gen_toks": limit})
        return request
