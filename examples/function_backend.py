"""A backend that calls a Python function: `answer(prompt, stop, max_tokens)` returns the text.

Name it in your package's pyproject.toml, and the configuration accepts it:

    [project.entry-points."meta_eval.backends"]
    function = "function_backend:FunctionBackend"

    backend: function
    model_args: {function: "my_module:answer"}
"""

from collections.abc import Iterable, Iterator
from importlib import import_module

from meta_eval.sockets import Backend, Client, EngineRequest, EngineResponse, explain_too_long


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

    def answer(self, asks: Iterable[EngineRequest]) -> Iterator[EngineResponse]:
        module, _, name = self.engine.partition(":")
        function = getattr(import_module(module), name)
        for ask in asks:
            request = ask.request
            if why := explain_too_long(ask, self.settings.max_model_len):
                yield EngineResponse(request, error=why, retry=False)
            else:
                yield EngineResponse(
                    request, text=function(request.prompt, [*request.stop, *self.end], request.max_tokens)
                )
