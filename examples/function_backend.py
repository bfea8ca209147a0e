"""A backend that calls a Python function: `answer(prompt, stop, max_tokens)` returns the text.

Name it in your package's pyproject.toml, and the configuration accepts it:

    [project.entry-points."meta_eval.backends"]
    function = "function_backend:FunctionBackend"

    backend: function
    model_args: {function: "my_module:answer"}
"""

from collections.abc import Iterable, Iterator
from importlib import import_module

from meta_eval.sockets import Answer, Backend, Client, Request, explain_too_long


class FunctionBackend(Backend):
    name = "function"
    kinds = frozenset({"generate"})  # tasks that need log-likelihoods are left out with a message
    no_command = "lm_eval cannot call a function"

    def load_client(self) -> type["FunctionClient"]:
        return FunctionClient


class FunctionClient(Client):
    @property
    def engine(self) -> str:
        return str(self.settings.model_args["function"])

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        module, _, name = self.engine.partition(":")
        function = getattr(import_module(module), name)
        for request in requests:
            if why := explain_too_long(request, self.settings.max_model_len):
                yield request.answer(error=why, retry=False)
            else:
                yield request.answer(text=function(request.prompt, [*request.stop, *self.end], request.max_tokens))
