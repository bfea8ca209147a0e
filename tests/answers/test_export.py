"""export: what stands in the file is what lm_eval would send, to the letter and to the token."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from accelerator import lines_of
from command import cli, full_disk
from golden import all_tasks, compared_tasks
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.model import LM, TemplateLM
from marks import thorough
from packs import edit, prepare, read_docs, reseal, some_templates, yaml_of
from places import REPOSITORY
from shared import whole_pack
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from meta_eval import export
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.recorded_answers import make_scoring_request
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.base.errors import UserError
from meta_eval.harness.answer import Answer

BOS = "<|begin_of_text|>"
LETTERS, CHOICE = "meta_mmlu_pro_instruct", "meta_mmlu_pretrain"


class Spy(LM):  # type: ignore[misc]
    """Notes what lm-eval's evaluator sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, int, int, tuple[Any, ...]]] = []

    def _note(self, requests: Sequence[Any]) -> None:
        self.sent += [(request.task_name, request.doc_id, request.idx, request.args) for request in requests]

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        self._note(requests)
        return ["" for _ in requests]

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        self._note(requests)
        return [(-1.0, False) for _ in requests]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError


def sent_by_lm_eval(pack: Path, tasks: Sequence[str], **options: Any) -> list[tuple[str, int, int, tuple[Any, ...]]]:
    import lm_eval
    from lm_eval.tasks import TaskManager

    spy = Spy()
    lm_eval.simple_evaluate(
        model=spy, tasks=list(tasks), task_manager=TaskManager(include_path=str(pack), include_defaults=False),
        bootstrap_iters=0, confirm_run_unsafe_code=True, **options,
    )  # fmt: skip
    return sorted(spy.sent, key=lambda instance: instance[:3])


def as_sent(requests: Sequence[dict[str, Any]]) -> list[tuple[str, int, int, tuple[Any, ...]]]:
    """What a file of requests says, in the shape of lm-eval's instances."""
    result: list[tuple[str, int, int, tuple[Any, ...]]] = []
    for request in requests:
        if request["kind"] == "generate":
            settings = {"until": request["stop"], "max_gen_toks": request["max_tokens"], **request["settings"]}
            result.append((request["task"], request["doc"], 0, (request["prompt"], settings)))
        else:
            for index, text in enumerate(request["continuations"]):
                result.append((request["task"], request["doc"], index, (request["prompt"], text)))
    return sorted(result, key=lambda request: request[:3])


def exported(pack: Path, *tasks: str) -> list[dict[str, Any]]:
    file = pack.parent / "requests.jsonl"
    export(pack, file, tasks=tasks)
    return lines_of(file)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("made") / "work_dir", f"{LETTERS},{CHOICE}")


@pytest.fixture
def pack(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "work_dir"))


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of a model whose tokenizer is there, and pads and truncates texts."""
    folder = tmp_path_factory.mktemp("with_tokens")
    tokenizer = byte_tokenizer()
    tokenizer.enable_padding()
    tokenizer.enable_truncation(8)
    (folder / "model").mkdir()
    tokenizer.save(str(folder / "model" / "tokenizer.json"))
    return prepare(folder / "work_dir", f"{LETTERS},{CHOICE}", model_name=str(folder / "model"))


@thorough
def test_it_is_what_lm_eval_would_send_of_every_task(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pack = Path(shutil.copytree(whole_pack(tmp_path_factory), tmp_path / "work_dir"))
    header, *requests = exported(pack)
    tasks = compared_tasks()
    assert as_sent([request for request in requests if request["task"] in tasks]) == sent_by_lm_eval(pack, tasks)
    assert {request["kind"] for request in requests} == {"generate", "choices"}
    assert sorted(header["tasks"]) == all_tasks()
    ids = [request["id"] for request in requests]
    assert len(ids) == len(set(ids))
    assert ids == [f"{request['task']}/{request['doc']}" for request in requests]


@pytest.mark.parametrize("limit", [3, 0.3])
def test_a_limit_of_the_pack_is_that_of_lm_eval(limit: float, tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", CHOICE, limit=limit, template_dir=str(some_templates(tmp_path, "mmlu")))
    assert as_sent(exported(pack)[1:]) == sent_by_lm_eval(pack, [CHOICE], limit=limit)


def test_each_repeat_of_a_doc_is_a_request(pack: Path) -> None:
    edit(yaml_of(pack, LETTERS), "generation_kwargs:", "repeats: 2\ngeneration_kwargs:")
    reseal(pack)
    _, *requests = exported(pack, LETTERS)
    assert as_sent(requests) == sent_by_lm_eval(pack, [LETTERS])
    assert [request["id"] for request in requests[:3]] == [f"{LETTERS}/0/0", f"{LETTERS}/0/1", f"{LETTERS}/1/0"]


def test_prompts_are_hashed_as_meta_hashes_them(pack: Path) -> None:
    docs = read_docs(pack, LETTERS)
    for line in exported(pack, LETTERS)[1:]:
        assert [line["prompt_sha256"]] == docs[line["doc"]]["input_final_prompts_hash"]


def test_the_same_pack_gives_the_same_bytes(pack: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert cli("export", pack, "--output", tmp_path / name).returncode == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_field_is_documented(with_tokens: Path) -> None:
    text = (REPOSITORY / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    head, requests, answers = re.split(r"\| a request \||### Answers", text)
    header, *lines = exported(with_tokens)
    assert {f"`{name}`" for name in header} <= set(re.findall(r"`\w+`", head))
    assert {f"`{name}`" for line in lines for name in line} <= set(re.findall(r"`\w+`", requests))
    held = {field.name for field in fields(Answer) if field.metadata}
    assert {"id", "text", "choices", "error", "ended", "tools_lost"} <= held
    assert {f"`{name}`" for name in held} <= set(re.findall(r"`\w+`", answers))


# Token ids


def byte_tokenizer() -> Tokenizer:
    """Bytes and a few merges, with one BOS in front, as Llama 3's tokenizer.json puts it."""
    vocabulary = {sign: index for index, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("Ġ", "A"), ("Ġ", "B"), (":", "Ġ"), ("ĊĊ"[0], "Ċ")]
    for merge in merges:
        vocabulary.setdefault("".join(merge), len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BOS, "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"])
    bos = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, bos)]
    )
    return tokenizer


class Tokens(TemplateLM):  # type: ignore[misc]
    """lm-eval's own way from a context and a continuation to tokens."""

    backend = "causal"

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def tok_encode(self, string: str, add_special_tokens: bool | None = True, **_: Any) -> list[int]:
        ids: list[int] = self._tokenizer.encode(string, add_special_tokens=bool(add_special_tokens)).ids
        return ids

    @property
    def eot_token_id(self) -> int:
        return 0

    def _loglikelihood_tokens(self, requests: Any, **_: Any) -> Any: ...
    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any: ...
    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any: ...


def test_token_ids_are_the_prompt_with_one_bos(with_tokens: Path) -> None:
    tokenizer = byte_tokenizer()
    header, *requests = exported(with_tokens)
    bos = tokenizer.token_to_id(BOS)
    assert header["bos_token_id"] == bos
    for request in requests:
        assert request["prompt_token_ids"][0] == bos
        assert request["prompt_token_ids"].count(bos) == 1
        assert tokenizer.decode(request["prompt_token_ids"][1:], skip_special_tokens=False) == request["prompt"]


@given(
    st.text(st.sampled_from("AB: \n"), min_size=1).filter(str.strip),
    st.lists(st.text(st.sampled_from("AB :"), min_size=1), min_size=1, max_size=4),
)
def test_continuations_are_cut_into_tokens_as_lm_eval_cuts_them(prompt: str, continuations: list[str]) -> None:
    tokenizer = byte_tokenizer()
    request = Request("t/0", "t", 0, 0, "choices", prompt, continuations=tuple(continuations))
    (result,) = encode_requests([request], Encoder(tokenizer))
    theirs = [Tokens(tokenizer)._encode_pair(prompt, text) for text in continuations]
    assert result.continuation_ids == [continuation for _, continuation in theirs]
    assert all(result.prompt_ids == context for context, _ in theirs)


def test_what_is_forced_is_the_recorded_answer_by_itself_behind_the_prompt(with_tokens: Path, tmp_path: Path) -> None:
    tokenizer, pack = byte_tokenizer(), with_tokens
    plain = {line["id"]: line for line in exported(pack)[1:]}
    export(pack, tmp_path / "forced.jsonl", force=True)
    header, *requests = lines_of(tmp_path / "forced.jsonl")
    assert header["force"] is True
    docs = read_docs(pack, LETTERS)
    texts = {f"{LETTERS}/{n}": doc["recorded_output"] for n, doc in enumerate(docs) if doc["recorded_output"].strip()}
    assert {request["id"]: request["continuations"] for request in requests if request["kind"] == "force"} == {
        name: [text] for name, text in texts.items()
    }
    for request in requests:
        other = plain[request["id"]]
        assert request["prompt_token_ids"] == other["prompt_token_ids"]
        if request["kind"] == "choices":
            assert request == other
            continue
        assert request["request_sha256"] != other["request_sha256"]
        (ids,) = request["continuation_token_ids"]
        assert ids == tokenizer.encode(request["continuations"][0], add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("recorded", "forced"),
    [
        ("It is B.<|eot_id|>", "It is B."),
        ("It is B. STOP and so on", "It is B. "),
        ("<|eot_id|>", None),
        (None, None),
    ],
)
def test_the_end_of_a_recorded_answer_is_none_of_its_words(recorded: str | None, forced: str | None) -> None:
    request = Request("t/0/0", "t", 0, 0, "generate", "What?", stop=("STOP",), max_tokens=5)
    scoring = make_scoring_request(request, None if recorded is None else Answer(id="", text=recorded))
    assert (scoring and scoring.continuations) == (forced and (forced,))
    assert scoring is None or (scoring.id, scoring.kind, scoring.stop, scoring.max_tokens) == ("t/0", "force", (), 0)
    assert make_scoring_request(replace(request, repeat=1), Answer(id="", text="It is B.")) is None, "one a doc"


def test_without_a_tokenizer_there_are_no_token_ids_and_it_says_so(pack: Path) -> None:
    done = cli("export", pack, "--output", pack.parent / "r.jsonl", "--json")
    assert json.loads(done.stdout)["token_ids"] is False
    assert "the tokenizer of my/model is not on this machine" in done.stderr
    assert "prompt_token_ids" not in lines_of(pack.parent / "r.jsonl")[1]


# What a user can do wrong


def test_nothing_of_an_edited_pack_is_run(pack: Path) -> None:
    ran = pack.parent / "ran"
    with (pack / "_common" / "rows.py").open("a") as file:
        file.write(f"open({str(ran)!r}, 'w')\n")
    (pack.parent / "a.jsonl").touch()
    for command in (["export", pack], ["grade", pack.parent / "a.jsonl", "--pack", pack]):
        done = cli(*command, cwd=pack.parent)
        assert done.returncode == 2
        assert "so it was not run" in " ".join(done.stderr.split())
    assert not ran.exists()
    export(pack, pack.parent / "r.jsonl", edited=True)
    assert lines_of(pack.parent / "r.jsonl")[0]["edited"] == ["_common/rows.py"]


@pytest.mark.parametrize("body", ["raise TypeError('no')", "raise SystemExit(3)"])
def test_code_of_a_pack_that_fails_is_one_message(body: str, tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", "meta_ifeval", template_dir=str(some_templates(tmp_path, "ifeval")))
    edit(
        pack / "ifeval" / "utils.py",
        "def doc_to_text(",
        f"def doc_to_text(*_):\n    import os\n    {body}\n\n\ndef other(",
    )
    reseal(pack)
    done = cli("export", pack, "--output", tmp_path / "r.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "r.jsonl").exists()


# What an earlier export wrote.
OLD = '{"format": "meta-eval requests", "version": 1}\n'


def test_what_cannot_be_exported_leaves_the_old_file(pack: Path) -> None:
    file = pack.parent / "requests.jsonl"
    file.write_text(OLD)
    next(pack.rglob(f"{CHOICE}.parquet")).write_bytes(b"torn")
    with pytest.raises(UserError, match="is not the file that was prepared"):
        export(pack, file, edited=True)
    assert file.read_text() == OLD
    assert [path.name for path in pack.parent.iterdir() if path.name.startswith(".requests")] == []


def test_a_full_disk_leaves_the_old_file(pack: Path) -> None:
    file = pack.parent / "requests.jsonl"
    file.write_text(OLD)
    with full_disk(4096):
        done = cli("export", pack, "--output", file)
    assert done.returncode == 2
    assert f"{file}: cannot be written (File too large)" in done.stderr
    assert file.read_text() == OLD
    assert [path.name for path in pack.parent.iterdir() if path.name.startswith(".requests")] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["work_dir", "--tasks", "meta_mmlu_pretrian"], "did you mean 'meta_mmlu_pretrain'?"),
        (["work_dir", "--output", "work_dir/manifest.json/r.jsonl"], "r.jsonl: its folder does not exist"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], told: str, pack: Path) -> None:
    done = cli("export", *arguments, cwd=pack.parent)
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]
    assert done.stdout == ""
