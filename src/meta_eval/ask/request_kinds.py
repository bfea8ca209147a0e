"""The socket for kinds of requests: how each is built from a task of lm-eval, encoded, written, checked and graded.

The core has `generate`, `chat`, `choices` and `force`. A package adds a kind by an entry point of the group
``meta_eval.request_kinds``, which names a `RequestKind`. A backend that answers it names it in its ``kinds``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request, choose_docs
from meta_eval.base.errors import PackError, UserError
from meta_eval.base.extensions import Extension, ExtensionError, find_extensions, load_extension
from meta_eval.base.logs import log
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import ChatChoice
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.families import list_answer_ends
from meta_eval.pack.backends.registry import suggest_backend
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.task_choice import choose_tasks, leave_out_tasks

REQUEST_KINDS_GROUP = "meta_eval.request_kinds"

# Docs whose instances are in memory at a time. lm-eval would keep those of all docs.
_CHUNK = 512

# Requests that are tokenised together.
_BATCH = 128


class RequestKind(ABC):
    """A kind of requests."""

    name: ClassVar[str]
    """As files of requests and the ``kinds`` of a `Backend` have it."""

    refusal: ClassVar[str]
    """What a backend lacks that cannot answer it: goes on behind "backend NAME"."""

    subject: ClassVar[str | None] = None
    """What cannot be scored then, in warnings; None for the task itself."""

    answered_by_text: ClassVar[bool] = False
    """Whether a generated text answers it."""

    tokens_after: ClassVar[int] = 0
    """Tokens that an engine generates behind those of prompt and answer."""

    @abstractmethod
    def takes(self, output_type: str, asked_as: str) -> bool:
        """Whether the requests of a task of lm-eval are of this kind.

        Args:
            output_type: As its YAML has it.
            asked_as: ``text`` or ``chat``, as ``metadata: {meta_eval: {asked_as: …}}`` of its YAML says.
        """

    @abstractmethod
    def build(self, request: Request, instances: Sequence[Any], task: Any) -> Request:
        """Complete a request from its instances.

        Args:
            request: It has id, task, doc, repeat, kind and prompt.
            instances: The instances of lm-eval for it, in order.
            task: Its task of lm-eval.

        Raises:
            PackError: The task asks in a way that a request cannot hold.
        """

    @abstractmethod
    def explain_unfit(self, request: Request, answer: Answer) -> str | None:
        """Why an answer is none to a request, or None. The text goes on behind "FILE, line N:"."""

    @abstractmethod
    def replay(self, answers: Sequence[Answer], task: Any) -> Mapping[int, Sequence[Any]]:
        """Convert the answers to a doc, which fit, to responses of a model of lm-eval.

        Args:
            answers: In the order of the requests.
            task: The task of lm-eval that grades them.

        Returns:
            By the index of an instance: a response per repeat.
        """

    @abstractmethod
    def format_fields(self, request: Request) -> dict[str, Any]:
        """What a line of a file of requests holds besides id, task, doc, kind, prompt, hashes and token ids."""

    @abstractmethod
    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterable[Request]:
        """Add token ids to requests of this kind, in order.

        Args:
            requests: The requests.
            encoder: An `Encoder`.
        """

    def split(self, instances: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Split the instances of a doc into those of each request; all belong to one unless a kind says otherwise."""
        return [instances]

    def refuse(self, backend: str) -> str:
        """Why a backend, by name, cannot answer it."""
        return f"backend {backend} {self.refusal}"

    def is_comparable(self, request: Request, recorded: Answer) -> bool:  # noqa: ARG002 (most have no record)
        """Whether an answer can be compared with a recorded one."""
        return False

    def make_scoring_request(self, request: Request, recorded: Answer) -> Request | None:  # noqa: ARG002 (likewise)
        """Make the request for the log-probabilities of a recorded answer, which is comparable; None if there is
        none."""
        return None


class Generate(RequestKind):
    """A text is answered with a text."""

    name = "generate"
    refusal = "writes no texts"
    answered_by_text = True

    def takes(self, output_type: str, asked_as: str) -> bool:
        return output_type == "generate_until" and asked_as != "chat"

    def build(self, request: Request, instances: Sequence[Any], task: Any) -> Request:  # noqa: ARG002
        if instances[0].request_type != "generate_until" or len(instances) > 1:
            raise _make_unheld_error(request.task, f"several {instances[0].request_type}")
        settings = dict(instances[0].args[1])
        stop, limit = settings.pop("until", None) or (), settings.pop("max_gen_toks", None)
        if not isinstance(limit, int):
            raise PackError("generation_kwargs.max_gen_toks is not set", where=f"task {request.task}")
        stop = (stop,) if isinstance(stop, str) else tuple(stop)
        return replace(request, stop=stop, max_tokens=limit, settings=settings)

    def explain_unfit(self, request: Request, answer: Answer) -> str | None:  # noqa: ARG002
        return None if answer.text is not None else "it holds no text"

    def replay(self, answers: Sequence[Answer], task: Any) -> Mapping[int, Sequence[Any]]:
        if _read_block(task).get("answer") == "message":
            return {0: [format_message(answer) for answer in answers]}
        stop = (task.config.generation_kwargs or {}).get("until") or ()
        stop = (stop,) if isinstance(stop, str) else tuple(stop)
        return {0: [cut_at_stop(answer.text or "", stop) for answer in answers]}

    def format_fields(self, request: Request) -> dict[str, Any]:
        return {"stop": request.stop, "max_tokens": request.max_tokens, "settings": request.settings}

    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterable[Request]:
        prompts = encoder.encode_prompts([request.prompt for request in requests])
        return map(lambda request, ids: replace(request, prompt_ids=ids), requests, prompts)

    def is_comparable(self, request: Request, recorded: Answer) -> bool:  # noqa: ARG002
        return recorded.text is not None

    def make_scoring_request(self, request: Request, recorded: Answer) -> Request | None:
        """A ``force`` request, a single one per doc even if the doc has repeats."""
        text = cut_at_stop(recorded.text or "", request.stop)
        for end in list_answer_ends():  # a recorded text may keep its end token
            text = text.removesuffix(end)
        if not text:
            return None
        return replace(
            request, id=f"{request.task}/{request.doc}", kind=Force.name, stop=(), max_tokens=0, settings=None,
            continuations=(text,),
        )  # fmt: skip


class Chat(Generate):
    """Messages are answered with a message. The endpoint makes the token ids with its own template, and scores no given
    answer."""

    name = "chat"
    refusal = "is asked with texts, and these docs are chat messages"

    def takes(self, output_type: str, asked_as: str) -> bool:
        return output_type == "generate_until" and asked_as == "chat"

    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterable[Request]:  # noqa: ARG002
        return requests

    def refuse(self, backend: str) -> str:
        return super().refuse(backend) + suggest_backend(self.name)

    def make_scoring_request(self, request: Request, recorded: Answer) -> Request | None:  # noqa: ARG002
        return None


class Likelihoods(RequestKind):
    """The log-likelihood of each continuation of a prompt. Recorded likelihoods are compared with it."""

    name = "choices"
    refusal = "does not say how likely choices are"
    subject = "multiple choice"

    def takes(self, output_type: str, asked_as: str) -> bool:  # noqa: ARG002
        return output_type in ("loglikelihood", "multiple_choice")

    def split(self, instances: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Each choice may have its own prompt (winogrande), or all may be scored again after an empty prompt
        (acc_mutual_info)."""
        return [list(part) for _, part in itertools.groupby(instances, key=lambda instance: instance.args[0])]

    def build(self, request: Request, instances: Sequence[Any], task: Any) -> Request:
        if any(instance.request_type != "loglikelihood" for instance in instances):
            raise _make_unheld_error(request.task, f"several {instances[0].request_type}")
        texts, greedy = tuple(instance.args[1] for instance in instances), str(task.OUTPUT_TYPE) == "loglikelihood"
        return replace(request, continuations=texts, needs_greedy=greedy)

    def explain_unfit(self, request: Request, answer: Answer) -> str | None:
        if len(answer.choices) != len(request.continuations):
            return f"it holds {len(answer.choices)} of {len(request.continuations)} choices"
        if request.needs_greedy and any(greedy is None for _, greedy in answer.choices):
            return "is_greedy is missing, and the score depends on it"
        return None

    def replay(self, answers: Sequence[Answer], task: Any) -> Mapping[int, Sequence[Any]]:
        pairs = [[(value, bool(greedy)) for value, greedy in answer.choices] for answer in answers]
        if int(task.config.repeats or 1) == 1:  # several answers are of several prompts
            return {index: [pair] for index, pair in enumerate(itertools.chain(*pairs))}
        return dict(enumerate(map(list, zip(*pairs, strict=True))))

    def format_fields(self, request: Request) -> dict[str, Any]:
        return {"continuations": request.continuations}

    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterable[Request]:
        """As lm-eval does: white space at the end of the prompt moves to the continuations, whose tokens are those that
        the whole text has after the prompt's tokens."""
        texts = (
            (request.prompt.rstrip(), *(request.prompt + text for text in request.continuations))
            for request in requests
        )
        ids = iter(encoder.encode_prompts([*itertools.chain(*texts)]))
        for request in requests:
            prompt = next(ids)
            continuations = [next(ids)[len(prompt) :] for _ in request.continuations]
            yield replace(request, prompt_ids=prompt or encoder.empty_prompt, continuation_ids=continuations)

    def is_comparable(self, request: Request, recorded: Answer) -> bool:
        return len(recorded.choices) == len(request.continuations)

    def make_scoring_request(self, request: Request, recorded: Answer) -> Request | None:  # noqa: ARG002
        return request


class Force(RequestKind):
    """The log-probability of each token of a given text after a prompt, which no task asks for."""

    name = "force"
    refusal = "cannot be asked how likely each token of a text is"
    tokens_after = 1

    def takes(self, output_type: str, asked_as: str) -> bool:  # noqa: ARG002
        return False

    def build(self, request: Request, instances: Sequence[Any], task: Any) -> Request:
        raise NotImplementedError

    def explain_unfit(self, request: Request, answer: Answer) -> str | None:  # noqa: ARG002
        return None if answer.tokens is not None else "it holds no tokens"

    def replay(self, answers: Sequence[Answer], task: Any) -> Mapping[int, Sequence[Any]]:
        raise NotImplementedError

    def format_fields(self, request: Request) -> dict[str, Any]:
        return {"continuations": request.continuations}

    def encode(self, requests: Sequence[Request], encoder: Encoder) -> Iterable[Request]:
        """The text is encoded on its own, because an engine would have generated it after the prompt's tokens."""
        prompts = encoder.encode_prompts([request.prompt for request in requests])
        for request, prompt in zip(requests, prompts, strict=True):
            continuations = [encoder.encode_text(text) for text in request.continuations]
            yield replace(request, prompt_ids=prompt, continuation_ids=continuations)


_CORE = (Generate(), Chat(), Likelihoods(), Force())


def list_kinds() -> dict[str, RequestKind]:
    """All kinds by name: the core's, then those of packages. A broken one is a warning."""
    return _load_kinds(tuple(find_extensions(REQUEST_KINDS_GROUP, [kind.name for kind in _CORE]).values()))


@cache
def _load_kinds(extensions: tuple[Extension, ...]) -> dict[str, RequestKind]:
    kinds: dict[str, RequestKind] = {kind.name: kind for kind in _CORE}
    for extension in extensions:
        try:
            kind: RequestKind = load_extension(extension, RequestKind, name=(str,), refusal=(str,))
            if kind.name != extension.name:
                place = f"{extension.name} ({extension.points[0].value})"
                raise ExtensionError(f"defines the kind of requests {kind.name}", where=place)
            kinds[kind.name] = kind
        except UserError as error:
            log.warning(str(error))
    return kinds


def find_request_kind(name: str) -> RequestKind:
    """The kind of requests of a name.

    Raises:
        PackError: There is none.
    """
    if (kind := list_kinds().get(name)) is None:
        raise PackError("there is no such kind of requests", where=name, hint="Install the package that brings it")
    return kind


def find_task_kind(name: str, task: Any) -> RequestKind:
    """The kind of the requests of a task of lm-eval.

    Raises:
        PackError: There is none.
    """
    output_type = str(task.OUTPUT_TYPE)
    if (kind := _find_taking(output_type, str(_read_block(task).get("asked_as", "text")))) is None:
        raise _make_unheld_error(name, output_type)
    return kind


def _find_taking(output_type: str, asked_as: str) -> RequestKind | None:
    return _choose_taking(tuple(sorted(list_kinds().values(), key=_CORE.__contains__)), output_type, asked_as)


@cache
def _choose_taking(kinds: tuple[RequestKind, ...], output_type: str, asked_as: str) -> RequestKind | None:
    """The first kind that takes such requests, a package's before the core's. Others that take them are never used for
    them: that is said once."""
    taking = [kind for kind in kinds if kind.takes(output_type, asked_as)]
    for other in taking[1:]:
        log.warning(
            f"the kind of requests {other.name} ({type(other).__module__}) is not used for {output_type} requests of "
            f"tasks asked as {asked_as}: {taking[0].name} takes them"
        )
    return taking[0] if taking else None


def choose_tasks_to_ask(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """The tasks of `choose_tasks` whose requests are of a known kind; the others are named in a warning.

    Raises:
        ConfigError: As of `choose_tasks`, or there is no such task.
    """
    chosen = choose_tasks(manifest, names)
    entries = {name: manifest.tasks[name] for name in chosen}
    unfit = [name for name, entry in entries.items() if _find_taking(entry.output_type, entry.asked_as) is None]
    return leave_out_tasks(chosen, unfit, "it scores the likelihood of whole texts", hint="Run it with lm_eval itself")


def choose_tasks_to_grade(manifest: Manifest, names: Sequence[str], *, allow_code: bool) -> list[str]:
    """The tasks of `choose_tasks_to_ask` that may be graded here; the others are named in a warning.

    Args:
        manifest: Of the pack.
        names: As of `choose_tasks`.
        allow_code: Whether to include tasks that run programs written by the model.

    Raises:
        ConfigError: As of `choose_tasks`, or there is no such task.
    """
    chosen = choose_tasks_to_ask(manifest, names)
    unsafe = [] if allow_code else [name for name in chosen if manifest.tasks[name].unsafe_code]
    return leave_out_tasks(chosen, unsafe, "scoring runs model-written code", hint="Allow it with --allow-code")


def build_requests(
    evaluator: Evaluator, name: str, limit: float | None, docs: Sequence[int] | None = None
) -> Iterator[Request]:
    """Yield the requests of a task, in order.

    Args:
        evaluator: Evaluator of the pack.
        name: The task.
        limit: ``--limit`` of the pack's command.
        docs: Numbers of the docs to use. None means all.

    Raises:
        PackError: lm-eval cannot load the task, or it needs requests that the format cannot hold.
    """
    task = evaluator.load(name, listed=False)
    kind = find_task_kind(name, task)
    (split, all_docs), *_ = task.dataset.items()
    chosen: Sequence[int] = choose_docs(len(all_docs), limit)
    if docs is not None:
        chosen = [doc for doc in docs if doc in chosen]
    for start in range(0, len(chosen), _CHUNK):
        chunk = chosen[start : start + _CHUNK]
        task.dataset = {split: _read(all_docs, chunk)}
        groups: dict[int, list[Any]] = {}
        for instance in evaluator.instances(name, task):  # instances count the available docs from 0
            groups.setdefault(chunk[instance.doc_id], []).append(instance)
        for doc, instances in groups.items():
            instances.sort(key=lambda item: item.idx)
            yield from _build_doc(kind, name, doc, instances, task)


def _build_doc(kind: RequestKind, name: str, doc: int, instances: list[Any], task: Any) -> Iterator[Request]:
    """The requests of a doc: one for each part of its instances, or for each repeat of the only part."""
    parts = list(kind.split(instances))
    repeats = instances[0].repeats or 1
    numbered = [(part[0].idx, part) for part in parts] if len(parts) > 1 else [(n, parts[0]) for n in range(repeats)]
    for number, part in numbered:
        own_id = f"{name}/{doc}/{number}" if len(numbered) > 1 else f"{name}/{doc}"
        yield kind.build(Request(own_id, name, doc, number, kind.name, part[0].args[0]), part, task)


def _read(docs: Any, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Read some docs at once: from `datasets`, each alone takes several times as long."""
    if isinstance(docs, list):
        return [docs[number] for number in numbers]
    rows: list[dict[str, Any]] = docs.with_format("arrow")[list(numbers)].to_pylist()
    return rows


def encode_requests(requests: Iterable[Request], encoder: Encoder | None, *, top_k: int = 0) -> Iterator[Request]:
    """Make requests ready to be sent, in order and in batches: an encoding is far larger than its text.

    Args:
        requests: The requests.
        encoder: Makes their token ids; None for none.
        top_k: For force: how many likeliest tokens to return for each place.
    """
    left = iter(requests)
    while batch := list(itertools.islice(left, _BATCH)):
        for name, alike in itertools.groupby(batch, key=lambda request: request.kind):
            some = list(alike)
            encoded = some if encoder is None else find_request_kind(name).encode(some, encoder)
            yield from (replace(request, top_k=top_k) for request in encoded) if top_k else encoded


def cut_at_stop(text: str, stop: Iterable[str]) -> str:
    """Cut an answer at the first stop sequence, as lm-eval's engines do."""
    for sequence in filter(None, stop):
        text = text.partition(sequence)[0]
    return text


def format_message(answer: Answer) -> str:
    """A chat message as JSON text, for a task that grades its tool calls."""
    return ChatChoice(answer.text or "", None, answer.tool_calls, answer.finish_reason).format_message()


def _read_block(task: Any) -> Mapping[str, Any]:
    block = (task.config.metadata or {}).get("meta_eval")
    return block if isinstance(block, Mapping) else {}


def _make_unheld_error(task: str, what: str) -> PackError:
    return PackError(
        f"makes {what} requests, which a requests file cannot hold",
        where=f"task {task}",
        hint="Run it with lm_eval itself",
    )
