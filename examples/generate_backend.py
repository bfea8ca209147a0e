"""A backend for servers that answer `POST /generate` with {"generated_text": …}.

`ServersClient` provides parallel requests, retries, timeouts and several addresses in `base_url`. Name the backend in
your package's pyproject.toml, and the configuration accepts it:

    [project.entry-points."meta_eval.backends"]
    generate = "generate_backend:GenerateBackend"

    backend: generate
    base_url: http://host:8080
"""

from meta_eval.sockets import Answer, Backend, Connection, RefusedError, Request, ServersClient


class GenerateBackend(Backend):
    name = "generate"
    kinds = frozenset({"generate"})  # tasks that need log-likelihoods are left out with a message

    def load_client(self) -> type["GenerateClient"]:
        return GenerateClient


class GenerateConnection(Connection):
    async def meet(self) -> None:
        about = await self.get("/info")
        self.engine = "generate" if isinstance(about, str) else f"generate {about['version']}"


class GenerateClient(ServersClient[GenerateConnection]):
    def connect(self, url: str, model: str, key: str | None) -> GenerateConnection:
        return GenerateConnection(url, self.settings, model, key)

    async def ask(self, server: GenerateConnection, request: Request) -> Answer:
        parameters = {"max_new_tokens": request.max_tokens, "stop": [*request.stop, *self.end]}
        answer = await server.post("/generate", {"inputs": request.prompt, "parameters": parameters})
        if isinstance(answer, str):
            raise RefusedError(answer)
        return request.answer(text=answer["generated_text"])
