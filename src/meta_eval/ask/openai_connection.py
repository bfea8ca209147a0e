"""A connection to a server that lists its models as OpenAI's API does: which model it is, and how long its context."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import PurePath

from meta_eval.ask.connection import TO_SAY, Connection
from meta_eval.ask.transport import Failed, GarbledError, Json
from meta_eval.base.display import one_line
from meta_eval.base.logs import log
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError

# The most characters of a server's name.
_LONGEST_NAME = 200

# What servers call the length of a context: vLLM, OpenRouter and Together, Groq.
_LENGTHS = ("max_model_len", "context_length", "context_window")


class OpenAIConnection(Connection):
    """A server with ``/v1/models``."""

    def __init__(self, url: str, settings: RunSettings, model: str, key: str | None) -> None:
        super().__init__(url, settings, model, key)
        self._met, self._requested = False, model

    def read_model_name(self, named: object) -> str | None:
        """The name that a response gives to its model, in the spelling of the request; None if it gives none.

        Args:
            named: The field ``model`` of a response, whatever it is.
        """
        if not isinstance(named, str) or not named.strip():
            return None
        pairs = ((a, b) for name in (self._model, self._requested) for a, b in ((named, name), (name, named)))
        if any(same(a, b) for a, b in pairs for same in _SPELLINGS):
            return self._requested
        return one_line(named)[:_LONGEST_NAME]

    @abstractmethod
    async def _learn(self) -> None:
        """Find out what else it can do, when it is first met."""

    async def meet(self) -> None:
        """Check that the server answers and has the model; the first time, also find its abilities."""
        try:
            reply = await self._transport.request("GET", "/models", timeout=TO_SAY)
            status = reply.status
            self._refuse_strangers(reply)
            self._refuse_for_now(reply)
            card = self._card(reply.read_json()) if status == 200 else {}
            if self._met:
                return
            if status != 200:
                log.warning(f"{self.url} does not list its models ({status}): assuming that it serves {self._model}")
            self.engine = await self._engine(card, reply.header("Server"))
            await self._learn()
            self._met = True
        except GarbledError as error:
            raise Failed(str(error)) from None

    def _card(self, answer: Json) -> Json:
        """Find the server's entry of the requested model."""
        cards = _models(answer)
        for same in _SAME:
            for card in cards:
                if isinstance(card.get("id"), str) and any(same(name, self._model) for name in _names(card)):
                    self._check_length(card)
                    self._model = card["id"]
                    return card
        names = ", ".join(str(card.get("id")) for card in cards[:8]) or "nothing"
        raise BackendError(
            f"serves {names}, not {self._model}", where=self.url,
            hint="Set model_name to the served name and tokenizer to the model's hub id or folder; or start the server "
            "with --served-model-name",
        )  # fmt: skip

    def _check_length(self, card: Json) -> None:
        meta = card.get("meta")  # llama.cpp: context of a slot
        n_ctx = meta.get("n_ctx") if isinstance(meta, dict) else None
        longest = next((card[name] for name in _LENGTHS if name in card), n_ctx)
        max_model_len = self._settings.max_model_len
        if not isinstance(longest, int):
            log.warning(
                f"{self.url} does not report its context length: max_model_len={max_model_len:,} is not checked"
            )
        elif longest < max_model_len:
            raise BackendError(
                f"serves contexts of {longest:,} tokens, and max_model_len is {max_model_len:,}", where=self.url,
                hint=f"Serve it with --max-model-len {max_model_len} (llama.cpp: -c, shared by its slots), or lower "
                "max_model_len",
            )  # fmt: skip

    async def _engine(self, card: Json, server: str) -> str:
        name = card.get("owned_by") or server or "server"
        try:
            reply = await self._transport.request("GET", "/version", timeout=TO_SAY, root=True)
            version = reply.read_json().get("version") if reply.status == 200 else None
        except (GarbledError, Failed):
            version = None
        # The name is stored with every answer.
        return one_line(f"{name} {version}" if isinstance(version, str) else str(name))[:_LONGEST_NAME]


def _models(answer: Json) -> list[Json]:
    """The models that a server lists."""
    listed = answer.get("data")
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def _names(card: Json) -> Iterator[str]:
    """The server's names of a model: vLLM uses name or path, llama.cpp also aliases."""
    aliases = card.get("aliases")
    for name in (card.get("id"), card.get("root"), *(aliases if isinstance(aliases, list) else ())):
        if isinstance(name, str):
            yield name


def _is_tagged(name: str, model: str) -> bool:
    return name == f"{model}:latest"


def _is_file_of(name: str, model: str) -> bool:
    return name.endswith(".gguf") and model in (PurePath(name).name, PurePath(name).stem)


def _is_same_text(name: str, model: str) -> bool:
    return name.casefold() == model.casefold()


# Ways to match a server's model name with the requested name: equal; with Ollama's tag; as a file of llama.cpp.
_SAME: tuple[Callable[[str, str], bool], ...] = (
    str.__eq__,
    _is_tagged,
    _is_file_of,
)

# Ways in which a response may write the requested name.
_SPELLINGS = (_is_same_text, _is_tagged, _is_file_of)
