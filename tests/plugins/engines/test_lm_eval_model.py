"""Any model of lm-eval as a backend: a small class of its registry that counts what it is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models import MODEL_MAPPING
from offered import offer
from tokenizers import Tokenizer, models

from meta_eval.ask.client import find_client
from meta_eval.ask.request import Request
from meta_eval.base.errors import ConfigError
from meta_eval.cli import console
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends import registry
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.backends.registry import find_backend, list_backends
from meta_eval.pack.config import load_config
from meta_eval.plugins.engines.lm_eval.backend import REFUSED, LmEvalModel

NAME = "meta-eval-small"
BOS = 256


@register_model(NAME)
class Small(LM):  # type: ignore[misc]
    """Says the prompt's last word again. ``break`` in a prompt breaks the call that holds it."""

    made: ClassVar[list[Small]] = []

    def __init__(self, pretrained: str, batch_size: object = None, bos: int = 1, always: str = "", **_: Any) -> None:
        super().__init__()
        self.calls: list[list[tuple[Any, ...]]] = []
        self._bos, self._always = bos, always
        Small.made.append(self)

    def tok_encode(self, text: str) -> list[int]:
        return [BOS] * self._bos + list(text.encode())

    def _called(self, requests: Sequence[Any]) -> None:
        self.calls.append([request.args for request in requests])
        if self._always or any("break" in request.args[0] for request in requests):
            raise RuntimeError(self._always or "CUDA out of memory. Tried to allocate 3 GiB")

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        os.write(1, b"what an engine prints is no answer of ours\n")
        self._called(requests)
        return [request.args[0].split()[-1] for request in requests]

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        self._called(requests)
        return [(-float(len(request.args[1])), request.args[1] == " a") for request in requests]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    offer(monkeypatch, registry.BACKENDS_GROUP, **{NAME: LmEvalModel(NAME)})
    Small.made.clear()
    yield


def text(number: int, prompt: str, **changes: Any) -> Request:
    fields: dict[str, Any] = {"stop": ("\n",), "max_tokens": 5, "settings": {"do_sample": False}, **changes}
    request = Request(f"t/{number}", "t", number, 0, "generate", prompt, **fields)
    return replace(request, prompt_ids=[BOS, *prompt.encode()])


def choice(number: int, prompt: str, continuations: tuple[str, ...]) -> Request:
    request = Request(f"c/{number}", "c", number, 0, "choices", prompt, continuations=continuations)
    ids = [list(continuation.encode()) for continuation in continuations]
    return replace(request, prompt_ids=[BOS, *prompt.rstrip().encode()], continuation_ids=ids)


def ask(asks: Sequence[Request], where: Path, end: tuple[str, ...] = ("<end>",), **arguments: Any) -> list[Answer]:
    settings = RunSettings(
        model_name=str(where), backend=NAME, tasks=("t",), include_path="pack", max_model_len=100, model_args=arguments
    )
    with find_client(settings)(settings, model=str(where), logs=where / "logs", end=end) as client:
        return list(client.answer(iter(asks)))


def test_each_request_is_answered_as_lm_eval_asks_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    responses = ask([text(0, "say one"), choice(1, "is it ", (" a", " long"))], tmp_path)
    assert [(response.id, response.text, list(response.choices), response.finish_reason) for response in responses] == [
        ("t/0", "one", [], None),
        ("c/1", None, [(-2.0, True), (-5.0, False)], None),
    ]
    assert responses[0].prompt_tokens == 8
    assert Small.made[0].calls == [
        [("say one", {"do_sample": False, "until": ["\n", "<end>"], "max_gen_toks": 5})],
        [("is it ", " a"), ("is it ", " long")],
    ]
    assert capfd.readouterr().out == ""
    assert "what an engine prints" in (tmp_path / "logs" / f"{NAME}.log").read_text()


def test_one_call_has_64_requests_of_one_kind_and_settings(tmp_path: Path) -> None:
    asks = [text(n, f"say {n}") for n in range(70)] + [text(n, f"say {n}", max_tokens=6) for n in range(70, 75)]
    assert [response.text for response in ask(asks, tmp_path)] == [str(n) for n in range(75)]
    assert [len(call) for call in Small.made[0].calls] == [64, 6, 5]


def test_each_batch_of_a_class_with_batches_is_answered_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU a call of 64 requests takes minutes, in which nothing would be shown or kept."""
    monkeypatch.setattr(Small, "batch_size_per_gpu", 3, raising=False)
    settings = RunSettings(model_name="m", backend=NAME, tasks=("t",), include_path="pack", max_model_len=100)
    with find_client(settings)(settings, model="m", logs=tmp_path) as client:
        responses = client.answer(iter([text(n, f"say {'very ' * n}{n}") for n in range(7)]))
        assert next(responses).text == "6"
        assert len(Small.made[0].calls) == 1
        assert [response.text for response in responses] == ["5", "4", "3", "2", "1", "0"]
    assert [len(call) for call in Small.made[0].calls] == [3, 3, 1]


def test_progress_is_shown_while_an_engine_has_the_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with open(2, "w", encoding="utf-8", closefd=False) as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        monkeypatch.setattr(console, "_kept_err", None)
        progress = console.bound_err()
        load = Small.__init__

        def slowly(self: Small, *some: Any, **keys: Any) -> None:
            progress.print("loading")
            os.write(2, b"lines of the engine")
            load(self, *some, **keys)

        monkeypatch.setattr(Small, "__init__", slowly)
        ask([text(0, "say one")], tmp_path)
        progress.file.close()
    assert capfd.readouterr().err == "loading\n"
    assert "lines of the engine" in (tmp_path / "logs" / f"{NAME}.log").read_text(encoding="utf-8")


def test_no_more_requests_are_read_than_a_call_takes(tmp_path: Path) -> None:
    read: list[int] = []

    def asks() -> Iterator[Request]:
        for n in range(200):
            read.append(n)
            yield text(n, f"say {n}")

    settings = RunSettings(model_name="m", backend=NAME, tasks=("t",), include_path="pack", max_model_len=100)
    with find_client(settings)(settings, model="m", logs=tmp_path) as client:
        next(client.answer(asks()))
    assert len(read) <= 66


def test_of_a_call_that_fails_only_the_request_that_fails_alone_is_an_error(tmp_path: Path) -> None:
    responses = ask([text(n, "break this" if n == 3 else f"say {n}") for n in range(6)], tmp_path)
    answers = {response.doc: response.text for response in responses if response.error is None}
    assert answers == {n: str(n) for n in range(6) if n != 3}
    (failed,) = [response for response in responses if response.error]
    assert failed.doc == 3
    assert "not enough memory" in str(failed.error)
    assert "batch_size" in str(failed.error)
    assert [len(call) for call in Small.made[0].calls] == [6, 1, 1, 1, 1, 1, 1]


def test_an_argument_that_the_class_does_not_have_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(self: Small, pretrained: str, batch_size: object = None) -> None:
        raise AssertionError

    monkeypatch.setattr(Small, "__init__", init)
    with pytest.raises(BackendError, match=f"model_args.attention: backend {NAME} has no such argument. Take it out"):
        ask([text(0, "say one")], tmp_path, attention="sdpa")


def test_where_nothing_can_be_answered_the_run_ends(tmp_path: Path) -> None:
    """Rather than with one failure for each of fourteen thousand requests."""
    with pytest.raises(BackendError, match="the wires are cut"):
        ask([text(n, f"say {n}") for n in range(6)], tmp_path, always="the wires are cut")
    assert sum(len(call) for call in Small.made[0].calls) == 12


@pytest.mark.parametrize(("bos", "words"), [(0, "puts 0 BOS"), (2, "puts 2 BOS")])
@pytest.mark.parametrize("kind", ["generate", "choices"])
def test_another_bos_than_one_is_refused_before_anything_is_asked(
    tmp_path: Path, bos: int, words: str, kind: str
) -> None:
    request = text(0, "say one") if kind == "generate" else choice(0, "is it ", (" a", " b"))
    with pytest.raises(BackendError, match=words):
        ask([request], tmp_path, bos=bos)
    assert Small.made[0].calls == []


def test_a_prompt_that_would_be_cut_is_not_asked(tmp_path: Path) -> None:
    long, short = ask([text(0, "x" * 99), text(1, "say one")], tmp_path)
    assert "max_model_len is 100" in str(long.error)
    assert not long.retry
    assert short.text == "one"
    assert [len(call) for call in Small.made[0].calls] == [1]


def test_tokens_are_counted_by_the_tokenizer_of_the_model(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"o": 0, "n": 1, "e": 2, "on": 3}, merges=[("o", "n")]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (response,) = ask([text(0, "say one")], tmp_path)
    assert response.completion_tokens == 2


def test_a_class_that_is_not_installed_is_named(tmp_path: Path) -> None:
    settings = RunSettings(model_name="m", backend="hf", tasks=("t",), include_path="pack")
    pytest.importorskip("lm_eval")
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        with (
            pytest.raises(BackendError, match=r"is not installed.*lm-eval\[hf\]"),
            find_client(settings)(settings, model="m", logs=tmp_path),
        ):
            pass
    else:
        pytest.skip("torch is installed here")


def test_every_model_of_lm_eval_is_a_backend_or_refused_with_a_reason() -> None:
    """Held against the registry of whichever lm-eval is installed: its models of later versions may be missing."""
    assert set(MODEL_MAPPING) <= set(list_backends()) | set(REFUSED)
    assert not set(list_backends()) & set(REFUSED)


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("sglan", "did you mean 'sglang'"),
        ("openai-chat-completions", "chat template"),
        ("dummy", "at random"),
    ],
)
def test_another_name_is_refused_with_a_hint(backend: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(None, [f"backend={backend}", "model_name=m", "evals_dataset=sample", "tasks=meta_instruct"])


@pytest.mark.parametrize(
    ("backend", "arguments"),
    [
        (
            "hf",
            "pretrained=m,dtype=float16,max_length=9000,add_bos_token=True,parallelize=True,attn_implementation=sdpa",
        ),
        (
            "sglang",
            "pretrained=m,dtype=float16,context_length=9000,tp_size=2,dp_size=1,mem_fraction_static=0.8,"
            "add_bos_token=True,attn_implementation=sdpa",
        ),
        ("gguf", "pretrained=m,attn_implementation=sdpa"),
    ],
)
def test_the_printed_command_has_the_names_of_the_class(backend: str, arguments: str) -> None:
    run = RunSettings(
        model_name="m", backend=backend, tasks=("a", "b"), include_path="pack", dtype="float16", max_model_len=9000,
        tensor_parallel_size=2, gpu_memory_utilization=0.8, model_args={"attn_implementation": "sdpa"},
    )  # fmt: skip
    command = find_backend(backend).command(run)
    assert command[:5] == ("lm_eval", "--model", backend, "--model_args", arguments)
    assert find_backend(backend).says_bos(command, added=True) == (backend != "gguf")


@pytest.mark.parametrize(
    ("backend", "name"), [("hf", "max_length"), ("hf", "parallelize"), ("sglang", "mem_fraction_static")]
)
def test_an_argument_that_has_a_key_of_its_own_is_refused(backend: str, name: str) -> None:
    words = [f"backend={backend}", "model_name=m", "evals_dataset=sample", "tasks=meta_instruct"]
    with pytest.raises(ConfigError, match=name):
        load_config(None, [*words, f"model_args.{name}=1"])
