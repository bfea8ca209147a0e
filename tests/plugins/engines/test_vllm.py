"""vLLM in this process, by a stand-in with a prefix cache: what is read from it changes no number."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command import cli
from places import HELPERS

from meta_eval.ask.request import Request
from meta_eval.harness.settings import RunSettings
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient

CONTEXT = list(range(100, 114))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[VllmClient]:
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.syspath_prepend(HELPERS / "stand_in")
    settings = RunSettings(model_name="tiny", tasks=("some",), include_path="work_dir")
    with VllmClient(settings, model="tiny", logs=tmp_path) as result:
        yield result
    del sys.modules["vllm"]  # not by the patch, which would bring it back


def ask(number: int, *continuations: Sequence[int]) -> Request:
    texts = tuple(str(index) for index in range(len(continuations)))
    request = Request(f"some/{number}", "some", number, 0, "choices", "prompt", continuations=texts)
    return replace(request, prompt_ids=CONTEXT, continuation_ids=continuations)


def exact(continuation: Sequence[int]) -> float:
    """The stand-in's log-probabilities of a continuation, each of which follows from the tokens before it."""
    total = 0.0
    for place in range(len(continuation)):
        before = [*CONTEXT, *continuation[:place]]
        total -= int.from_bytes(hashlib.sha256(repr(before).encode()).digest()[:4]) / 2**32
    return total


def computed(client: VllmClient) -> int:
    result: int = client._engine.computed
    return result


def test_the_context_of_continuations_is_computed_once(client: VllmClient) -> None:
    continuations = [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    (response,) = client.answer([ask(0, *continuations)])
    assert [choice for choice, _ in response.choices] == pytest.approx(
        [exact(continuation) for continuation in continuations]
    )
    assert all(is_likeliest for _, is_likeliest in response.choices)  # so is each token, says the stand-in
    # 14 tokens of context are three whole blocks and two more; of these 12 each but the first reads 12.
    assert computed(client) == len(CONTEXT) * 3 + 9 - 2 * 12


def test_a_continuation_of_which_the_cache_holds_tokens_is_asked_again(client: VllmClient) -> None:
    """The first and the second begin alike, over the end of a block; the third has been asked before."""
    continuations = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 3]]
    for number in range(2):
        (response,) = client.answer([ask(number, *continuations)])
        assert [choice for choice, _ in response.choices] == pytest.approx(
            [exact(continuation) for continuation in continuations]
        )


@pytest.mark.plugin("stand_in")
@pytest.mark.parametrize(
    ("settings", "where"),
    [(("data_parallel_size=4",), "backend vllm"), ((), "backend vllm"), (("backend=server", "serve=true"), "serve")],
)
def test_without_an_engine_the_message_names_the_backend_and_the_ways_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Sequence[str], where: str
) -> None:
    monkeypatch.setattr("meta_eval.pack.backends.base.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    keys = ("model_name=a/b", "evals_dataset=sample", "tasks=x", *settings)
    words = [word for key in keys for word in ("--set", key)]
    done = cli("run", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"error: {where}: vllm is not installed. pip install 'vllm>=0.18' on a machine with a GPU" in done.stderr
    for way in ("pip install '.[vllm]'", "--set backend=recorded", "--set backend=server --set base_url="):
        assert way in done.stderr
