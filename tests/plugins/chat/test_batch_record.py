"""Batch files as recorded runs: pairs are found by content, asked again as they were, and graded."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from accelerator import lines_of
from batch_service import Line, answer, completion, expired, result, write
from hypothesis import given
from hypothesis import strategies as st
from noted import noted
from one_task import run
from packs import prepare, read_docs

from meta_eval import compare, export, grade, report, verify
from meta_eval.api import compare_texts
from meta_eval.ask.request import Request, read_conversation
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.format import Place
from meta_eval.plugins.chat.batch_format import BatchFormat
from meta_eval.plugins.chat.chat_body import make_chat_body
from meta_eval.plugins.chat.chat_docs import split_bodies

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def request(number: int, **body: Any) -> Line:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Write {number} as a word."}]
    body = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 9, **body}
    return {"custom_id": f"q-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def results(model: str = "m", **changes: str) -> list[Line]:
    """All answers, with changes by number: ``n3="8"``."""
    texts = [changes.get(f"n{number}", word) for number, word in enumerate(WORDS)]
    return [result(f"q-{number}", completion(text, model)) for number, text in enumerate(texts)]


def write_pair(folder: Path) -> Path:
    write(folder / "words_requests.jsonl", [request(number) for number in range(10)])
    write(folder / "output.jsonl", results())
    return folder


def test_a_key_in_the_body_of_a_request_is_no_setting() -> None:
    docs, generation = split_bodies([{**request(number)["body"], "api_key": f"s3cret-{number}"} for number in (1, 2)])
    docs += split_bodies([{**request(1)["body"], "api_key": "s3cret"}])[0]
    headers = {"extra_headers": {"X": "s3cret"}, "provider": {"headers": {"Authorization": "Bearer s3cret-and-long"}}}
    docs += split_bodies([{**request(1)["body"], **headers}])[0]
    generation |= split_bodies([{**request(1)["body"], **headers}])[1]
    assert "s3cret" not in json.dumps([docs, generation])
    with pytest.raises(UserError, match="^request 0 asks for several answers at once"):
        split_bodies([{**request(0)["body"], "n": 2}])


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return write_pair(tmp_path / "run")


def made(place: Path, **keys: Any) -> Path:
    return prepare(place.parent / "pack", "recorded", evals_dataset=str(place), **keys)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair") / "run"
    folder.mkdir()
    return made(write_pair(folder))


@pytest.fixture
def pack(made_once: Path, tmp_path: Path) -> Path:
    """The pack of the pair as it is, in a folder of its own."""
    return Path(shutil.copytree(made_once, tmp_path / "pack"))


def refusal(place: Path) -> str:
    with pytest.raises(UserError) as error:
        made(place)
    return str(error.value)


def test_a_pair_is_a_task_named_like_its_requests(pack: Path) -> None:
    entry = read_manifest(pack).tasks["words"]
    assert (entry.docs, entry.model, entry.primary_metric) == (10, "m", "exact_match,none")
    assert [doc["recorded_output"] for doc in read_docs(pack, "words")] == WORDS
    assert verify(pack).passed


@pytest.mark.parametrize("name", ["other.jsonl", "other.txt", "other"])
def test_a_results_file_is_read_with_the_requests_beside_it(name: str, pair: Path) -> None:
    write(pair / name, results("other", n3="8"))
    assert read_manifest(made(pair / name)).tasks["words"].model == "other"


def test_a_first_line_is_read_to_its_end_wherever_its_custom_id_stands(pair: Path) -> None:
    lines = [json.loads(line) for line in (pair / "words_requests.jsonl").read_text(encoding="utf-8").splitlines()]
    long = [{"note": "word " * 20_000, **{key: line[key] for key in sorted(line)}} for line in lines]
    write(pair / "words_requests.jsonl", long)
    write(pair / "output.jsonl", [])
    assert BatchFormat().detect(Place(str(pair), pair)) > 0


def test_other_files_are_no_batch_files(tmp_path: Path) -> None:
    write(tmp_path / "results.jsonl", [{"custom_id": "a"}, {"id": "b", "text": "c"}])
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "broken.jsonl").write_text('{"custom_id": "a", "respon')
    assert BatchFormat().detect(Place(str(tmp_path), tmp_path)) == 0


def test_what_was_asked_is_asked_again(pair: Path) -> None:
    """With settings that all requests share, and some that one has alone."""
    shared = {"top_p": 0.5, "stop": ["."], "temperature": 0.7, "seed": 3, "logit_bias": {"5": -1}}
    lines = [request(number, **shared, **({"max_tokens": 4} if number == 2 else {})) for number in range(10)]
    write(pair / "words_requests.jsonl", lines)
    export(made(pair), pair.parent / "batch.jsonl", to="batch")
    assert [line["body"] for line in lines_of(pair.parent / "batch.jsonl")] == [
        {**line["body"], "model": "my/model"} for line in lines
    ]


def test_another_run_of_it_is_graded_and_compared(pair: Path, pack: Path) -> None:
    verify(pack)
    export(pack, pair.parent / "batch.jsonl", to="batch")
    answer(
        pair.parent / "batch.jsonl",
        pair.parent / "answered.jsonl",
        lambda line: WORDS[int(line["body"]["messages"][1]["content"].split()[1]) % 8],
    )
    done = grade([pair.parent / "answered.jsonl"], pack=pack, output=pair.parent / "out")
    assert done.scores == {"words": {"exact_match,none": 0.8}}
    (task,) = report([done.results], pack=pack).tasks
    assert task.is_decided
    assert (task.drop.baseline, task.drop.candidate) == (1.0, 0.8)


def test_another_pair_is_graded_by_what_its_requests_asked(pack: Path, tmp_path: Path) -> None:
    """With custom_ids of its own, another model and seed, in another order, and a request that the pack lacks."""
    lines = [{**request(number, model="other", seed=5), "custom_id": f"z{number}"} for number in reversed(range(12))]
    asked = write(tmp_path / "theirs.jsonl", lines)
    answers = [result(f"z{number}", completion(WORDS[number % 10], "other")) for number in range(12)]
    answers[3] = result("z3", completion("8", "other"))
    answered = write(tmp_path / "answered.jsonl", answers)
    for files in ([asked, answered], [answered, asked]):
        assert grade(files, pack=pack, output=tmp_path / "out").scores == {"words": {"exact_match,none": 0.9}}


@pytest.mark.parametrize("change", [{"max_tokens": 8}, {"temperature": 0.5}, {"tools": [{}]}, {"top_p": 0.9}])
def test_requests_that_asked_otherwise_are_refused(
    change: dict[str, Any], pair: Path, pack: Path, tmp_path: Path
) -> None:
    asked = write(tmp_path / "theirs.jsonl", [request(number, **change) for number in range(10)])
    with pytest.raises(UserError, match="none of its 10 requests is of this pack: other messages, tools or settings"):
        grade([asked, pair / "output.jsonl"], pack=pack, output=tmp_path / "out")


def test_two_files_of_requests_with_the_same_custom_ids_are_refused(pair: Path, pack: Path, tmp_path: Path) -> None:
    asked = write(tmp_path / "theirs.jsonl", [request(3)])
    with pytest.raises(UserError, match="has the custom_id 'q-3' of another file"):
        grade([pair / "words_requests.jsonl", asked, pair / "output.jsonl"], pack=pack, output=tmp_path / "out")


def test_a_report_knows_which_answers_of_the_record_were_cut(pair: Path) -> None:
    cut = result("q-0", completion("<think>zero is", "m", "length"))
    write(pair / "output.jsonl", [cut, *results()[1:]])
    pack = made(pair)
    verify(pack)
    export(pack, pair.parent / "batch.jsonl", to="batch")
    answer(
        pair.parent / "batch.jsonl", pair.parent / "answered.jsonl", lambda line: line["body"]["messages"][0]["content"]
    )
    done = grade([pair.parent / "answered.jsonl"], pack=pack, output=pair.parent / "out")
    (task,) = report([done.results], pack=pack).tasks
    assert task.cut is not None
    assert (task.cut.docs, task.cut.baseline_docs, task.cut.baseline_thinking) == (0, 1, 1)


def test_a_file_of_golds_says_what_is_right(pair: Path) -> None:
    golds = [{"custom_id": f"q-{number}", "gold": [word, str(number)]} for number, word in enumerate(WORDS)]
    write(pair / "golds.jsonl", golds)
    write(pair / "output.jsonl", results(n3="3", n4="5"))
    tallies = verify(made(pair)).tasks["words"].tallies
    assert tallies is not None
    assert (tallies.total.agreed, tallies.total.compared, tallies.total.graded) == (10, 10, 9)


def test_another_pair_is_a_baseline(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    write(tmp_path / "before/words_requests.jsonl", [request(number) for number in reversed(range(10))])
    write(tmp_path / "before/output.jsonl", results("older", n3="8"))
    pack = made(pair, baseline=str(tmp_path / "before"))
    (baseline,) = read_manifest(pack).tasks["words"].baseline
    assert (baseline.model, baseline.docs, baseline.docs_with_other_prompt) == ("older", 10, 0)
    assert verify(pack).passed


def test_two_pairs_are_compared_without_a_pack(pair: Path, tmp_path: Path) -> None:
    """By their texts; by verdicts where golds say what is right."""
    other = tmp_path / "other"
    other.mkdir()
    write(other / "words_requests.jsonl", [request(number) for number in range(10)])
    write(other / "output.jsonl", results(n3="drei"))
    with pytest.raises(
        UserError, match="holds no verdict on any answer. Compare graded runs, or only the texts of both"
    ):
        compare(pair, other)
    found = compare_texts(pair, other).comparison
    assert [(parting.task, parting.doc) for parting in found.partings] == [("words", 3)]
    for folder in (pair, other):
        golds = [{"custom_id": f"q-{number}", "gold": word} for number, word in enumerate(WORDS)]
        write(folder / "words_golds.jsonl", golds)
    (task,) = compare(pair, other).tasks
    assert task.docs == 10 and task.drop is not None and task.drop.value == pytest.approx(0.1)


def test_requests_without_an_answer_are_left_out_and_counted(pair: Path) -> None:
    """One failed, one lacks its line, one line is cut, and one belongs to no request."""
    lines = [*results()[2:], expired("q-0"), result("q-77", completion("x", "m"))]
    write(pair / "output.jsonl", lines)
    whole = (pair / "output.jsonl").read_bytes()
    (pair / "output.jsonl").write_bytes(whole + b'{"custom_id": "q-1", "respon')
    entry = read_manifest(made(pair)).tasks["words"]
    assert (entry.docs, dict(entry.warnings)) == (8, {"unanswered": 2, "answers_no_request": 1, "cut_lines": 1})


def test_the_requests_of_a_service_that_failed_are_read_from_their_own_file(pair: Path) -> None:
    write(pair / "output.jsonl", results()[:9])
    write(pair / "errors.jsonl", [expired("q-9")])
    assert read_manifest(made(pair)).tasks["words"].docs == 9


def test_files_with_the_same_custom_ids_are_paired_by_name(pair: Path) -> None:
    for name in ("sums", "words"):
        write(pair / f"{name}_requests.jsonl", [request(number) for number in range(10)])
        write(pair / f"{name}_output.jsonl", results())
    (pair / "output.jsonl").unlink()
    assert sorted(read_manifest(made(pair)).tasks) == ["sums", "words"]


TOOL = {"type": "function", "function": {"name": "spell", "parameters": {"properties": {"n": {"type": "integer"}}}}}


def call(number: object, name: str = "spell") -> Line:
    """A message that calls a tool."""
    function = {"name": name, "arguments": json.dumps({"n": number})}
    return completion(None, "m", "tool_calls", tool_calls=[{"id": "c", "type": "function", "function": function}])


@pytest.fixture
def tools(pair: Path) -> Path:
    """Each request offers a tool, and the record calls it with its number. For 9 it answers in words."""
    write(pair / "words_requests.jsonl", [request(number, tools=[TOOL]) for number in range(10)])
    calls = [result(f"q-{number}", call(number)) for number in range(9)]
    write(pair / "output.jsonl", [*calls, result("q-9", completion("<think>no tool</think>nine", "m"))])
    return pair


def graded_calls(tools: Path, change: dict[int, Line]) -> dict[str, float]:
    """The scores of a run that answers like the record, with changes by number."""
    pack = tools.parent / "pack"
    if not pack.exists():
        made(tools)
        assert verify(pack).passed
    export(pack, tools.parent / "batch.jsonl", to="batch")
    lines = []
    for number, line in enumerate(lines_of(tools.parent / "batch.jsonl")):
        assert line["body"]["tools"] == [TOOL]
        body = change.get(number, call(number) if number < 9 else completion("nine", "m"))
        lines.append(result(line["custom_id"], body))
    (scores,) = grade(
        [write(tools.parent / "calls.jsonl", lines)], pack=pack, output=tools.parent / "out"
    ).scores.values()
    return {name.removesuffix(",none"): score for name, score in scores.items()}


def test_where_tools_are_offered_calls_are_compared_with_those_of_the_record(tools: Path) -> None:
    assert graded_calls(tools, {})["exact_match"] == 1.0
    scores = graded_calls(tools, {0: call(5), 1: call(1.0), 2: completion("two", "m"), 3: call(3, "other"), 9: call(9)})
    assert scores["exact_match"] == 0.6
    assert (scores["tool_call_recall"], scores["tool_call_precision"]) == (8 / 9, 8 / 9)


def test_a_recorded_answer_that_was_cut_while_thinking_is_no_gold(tools: Path) -> None:
    lines = [result(f"q-{number}", call(number)) for number in range(9)]
    write(tools / "output.jsonl", [*lines, result("q-9", completion("<think>Let me", "m", "length"))])
    with noted() as said:
        pack = made(tools)
    assert read_docs(pack, "words")[9]["recorded_finish_reason"] == "length"
    assert verify(pack).passed
    assert any("the recorded answer of 1 doc is empty, so there is no gold" in line for line in said)
    scores = graded_calls(tools, {9: completion("nine", "m")})
    assert (scores["exact_match"], scores["ungraded"], scores["tool_call_precision"]) == (0.9, 0.1, 1.0)


def test_keywords_of_schemas_that_are_not_checked_are_named(tools: Path) -> None:
    tool = {"type": "function", "function": {"name": "spell", "parameters": {"contains": {}}}}
    write(tools / "words_requests.jsonl", [request(number, tools=[tool]) for number in range(10)])
    with noted() as said:
        made(tools)
    assert any("keywords that are not checked: contains" in line for line in said)


def test_recorded_answers_that_reached_their_limit_are_counted(pair: Path) -> None:
    lines = results()
    lines[3] = result("q-3", completion("thr", "m", "length"))
    write(pair / "output.jsonl", lines)
    with noted() as said:
        pack = made(pair)
    limit = "1 of 10 recorded answers reached the limit of 9 tokens; 99 % of the others have at most 3"
    assert any(limit in line for line in said)
    verify(pack)
    export(pack, pair.parent / "batch.jsonl", to="batch")
    answers = answer(pair.parent / "batch.jsonl", pair.parent / "answers.jsonl", lambda line: "one")
    graded = grade([answers], pack=pack, output=pair.parent / "out")
    judged = report(graded.results.parent, pack=pack).to_json()["tasks"][0]["cut"]
    assert (judged["docs"], judged["baseline_docs"], judged["baseline_thinking"]) == (0, 1, 0)


@pytest.mark.parametrize("name", ["words_requests.jsonl", "output.jsonl"])
@pytest.mark.parametrize(
    ("form", "words"),
    [("pointer", "git lfs pull"), ("utf-16", "it is UTF-16 and not UTF-8"), ("gz", "is compressed, and not read so"),
     ("gzip within", r"it is compressed \(gzip\)")],
)  # fmt: skip
def test_a_file_of_a_pair_in_a_form_that_is_not_read_is_named(name: str, form: str, words: str, pair: Path) -> None:
    file = pair / name
    text = file.read_text()
    if form == "pointer":
        file.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * 'a'}\nsize 12345\n")
    elif form == "utf-16":
        file.write_text(text, encoding="utf-16")
    else:
        file.write_bytes(gzip.compress(text.encode()))
    if form == "gz":
        file.rename(f"{file}.gz")
    with pytest.raises(UserError, match=f"{name}.*{words}"):
        made(pair)


GOLDS = [{"custom_id": f"q-{number}", "gold": word} for number, word in enumerate(WORDS)]


def lines(key: str = "gold", custom_id: str = "custom_id") -> bytes:
    """Golds, perhaps with other keys."""
    return "".join(json.dumps({custom_id: gold["custom_id"], key: gold["gold"]}) + "\n" for gold in GOLDS).encode()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("golds.jsonl", lines("answer"), "begins with no request, result or gold of a batch"),
        ("golds.jsonl", lines(custom_id="id"), "begins with no request"),
        ("truth.jsonl", lines("answer"), "begins with no request"),
        ("truth.jsonl", lines(custom_id="id"), "begins with no request"),
        ("golds.jsonl", b"# golds\n" + lines(), "begins with no request"),
        ("golds.jsonl", json.dumps(GOLDS[0], indent=1).encode(), "begins with no request"),
        ("golds.jsonl", lines().decode().encode("utf-16"), "cannot be read (it is UTF-16 and not UTF-8"),
        ("golds.jsonl", gzip.compress(lines()), "cannot be read (it is compressed (gzip)"),
        ("golds.jsonl.gz", gzip.compress(lines()), "is compressed, and not read so"),
        ("golds.jsonl", b"", "is empty"),
        ("golds.json", lines(), "is not read: its name does not end with .jsonl"),
        ("Gold.csv", b"custom_id,gold\nq-0,zero\n", "is not read: its name does not end with .jsonl"),
        ("golds.jsonl", "folder", "cannot be read (it is a folder, not a file)"),
        ("golds.jsonl", "pipe", "cannot be read (it is not a regular file)"),
        ("golds.jsonl", "link", "cannot be read (No such file or directory)"),
        ("words_requests.jsonl", b"# a\n{}\n", "begins with no request"),
        ("output.jsonl", b"{\n{}\n", "begins with no request"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_file_beside_a_pair_that_may_be_its_golds_and_is_not_read_stops_the_command(
    name: str, content: bytes | str, words: str, named: str, pair: Path
) -> None:
    """Read past, the recorded answers would be taken as right without a word."""
    place, file = pair if named == "folder" or name == "output.jsonl" else pair / "output.jsonl", pair / name
    if content == "folder":
        file.mkdir()
    elif content == "pipe":
        os.mkfifo(file)
    elif content == "link":
        file.symlink_to("nothing")
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    if name in ("words_requests.jsonl", "output.jsonl"):
        (pair / "golds.jsonl").write_bytes(lines())
    said = refusal(place)
    assert said.startswith(f"{file}: {words}") and "\n" not in said


def test_other_files_may_lie_beside_a_pair(pair: Path, caplog: pytest.LogCaptureFixture) -> None:
    (pair / "errors.jsonl").touch()
    (pair / "old.jsonl.gz").write_bytes(gzip.compress(lines()))
    (pair / "make_golds.py").write_text("print()\n")
    (pair / "._golds.jsonl").write_bytes(b"\0\5\x16\7")
    (pair / "golds").mkdir()
    write(pair / "questions.jsonl", [{"question": "Write 1 as a word.", "answer": "one"}])
    assert read_manifest(made(pair)).tasks["words"].docs == 10
    said = f"{pair}: questions.jsonl is not read: its first line has neither a custom_id nor a gold"
    assert caplog.messages.count(said) == 1


@pytest.mark.parametrize("left", ["words_requests.jsonl", "output.jsonl"])
def test_a_file_that_may_be_the_missing_one_of_a_pair_is_named(left: str, pair: Path) -> None:
    for name in {"words_requests.jsonl", "output.jsonl"} - {left}:
        write(pair / name, [{"id": f"q-{number}", "text": word} for number, word in enumerate(WORDS)])
        assert f"; {name} is not read: its first line has neither a custom_id nor a gold" in refusal(pair)


@pytest.mark.parametrize(("right", "warns"), [(0, True), (1, False)])
def test_golds_that_no_recorded_answer_equals_are_said(
    right: int, warns: bool, pair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    golds = [{"custom_id": f"q-{number}", "gold": word if number < right else f"#### {word}"}
             for number, word in enumerate(WORDS)]  # fmt: skip
    write(pair / "golds.jsonl", golds)
    made(pair)
    assert ("no recorded answer equals its gold (10 docs): check that golds.jsonl" in caplog.text) is warns


def test_golds_may_be_calls(tools: Path) -> None:
    golds = [{"custom_id": f"q-{number}", "gold": [{"name": "spell", "arguments": {"n": 1}}]} for number in range(10)]
    write(tools / "golds.jsonl", [*golds[:9], {**golds[9], "gold": None, "subtask": "none"}])
    pack = made(tools)
    tallies = verify(pack).tasks["words"].tallies
    assert tallies is not None
    assert (tallies.total.agreed, tallies.total.graded, list(tallies.subtasks)) == (10, 2, ["none"])


@pytest.mark.parametrize("gold", ["spell", [{"arguments": {}}], {"name": "spell"}])
def test_a_gold_that_is_no_list_of_calls_is_refused(gold: Any, tools: Path) -> None:
    golds = [{"custom_id": f"q-{number}", "gold": gold} for number in range(10)]
    write(tools / "golds.jsonl", golds)
    assert "golds.jsonl, 'q-0': the" in refusal(tools) or "golds.jsonl, 'q-0': a call has no name" in refusal(tools)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"words_requests.jsonl": None}, "has no file of requests beside it with its first custom_id"),
        ({"output.jsonl": None}, "holds requests of a batch without their results"),
        ({"output.jsonl": [expired("q-0")]}, "no request has an answer: batch_expired: The completion window is over"),
        ({"second.jsonl": results(n0="0")}, "'q-0' has two different answers ("),
        ({"output.jsonl": [*results()[:5], *results("n")[5:]]}, "the answers come from 2 models: m ("),
        ({"words_requests.jsonl": [request(0, n=2)]}, "asks for several answers at once"),
        ({"words_requests.jsonl": [request(0), request(0)]}, "repeats the custom_id 'q-0'"),
        ({"words_requests.jsonl": [request(0), {"custom_id": "q-1"}]}, "is not a request of a batch file"),
        ({"words_requests.jsonl": [request(0, messages=[])]}, "it holds no messages"),
        ({"golds.jsonl": [{"custom_id": "q-0", "gold": "zero"}]}, "golds.jsonl, 'q-1': has no gold"),
        ({"golds.jsonl": [{"custom_id": f"q-{n}", "gold": 3} for n in range(10)]}, "the gold is no text and no list of"),
        ({"a_requests.jsonl": [request(0)]}, "may answer several files of requests with the same custom_ids"),
        ({"sub/words_requests.jsonl": [request(3)], "sub/a.jsonl": results()[3:4]}, "has two files of requests of the task words"),
        ({"a" * 200 + ".jsonl": [request(0)], "words_requests.jsonl": None}, "its name is no name of a task"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_one_message(files: dict[str, list[Line] | None], message: str, pair: Path) -> None:
    for name, lines in files.items():
        (pair / name).parent.mkdir(exist_ok=True)
        if lines is None:
            (pair / name).unlink()
        else:
            write(pair / name, lines)
    said = refusal(pair)
    assert message in said and "\n" not in said


@pytest.mark.parametrize("name", ["words_requests.jsonl", "output.jsonl"])
def test_a_line_with_a_name_twice_is_one_message(name: str, pair: Path) -> None:
    file = pair / name
    file.write_text(file.read_text(encoding="utf-8").replace('"model":', '"model": "x", "model":', 1), encoding="utf-8")
    assert "of a batch file: it names 'model' twice in one object" in refusal(pair)


def test_the_command_ends_with_one_line(pair: Path) -> None:
    (pair / "words_requests.jsonl").unlink()
    settings = ("model_name=m", f"evals_dataset={pair}", "tasks=recorded", f"work_dir={pair.parent / 'pack'}")
    code, _, said = run("prepare", *(word for setting in settings for word in ("--set", setting)))
    assert (code, said.count("\n")) == (2, 1)


FIELDS = st.dictionaries(
    st.sampled_from(["top_p", "seed", "tools", "tool_choice", "max_tokens", "max_completion_tokens", "stop", "min_p"]),
    st.integers(1, 2),
)


@given(st.lists(FIELDS, min_size=1, max_size=4), st.integers(0, 1))
def test_a_body_that_was_split_is_made_again(bodies: list[dict[str, Any]], temperature: int) -> None:
    for number, body in enumerate(bodies):
        body.update(messages=[{"role": "user", "content": f"{number}"}], temperature=temperature)
        if "stop" in body:
            body["stop"] = [str(body["stop"])]
        if {"max_tokens", "max_completion_tokens"} <= body.keys():
            del body["max_tokens"]
        if not {"max_tokens", "max_completion_tokens"} & body.keys():
            body["max_tokens"] = 7
        if temperature:
            body.setdefault("seed", 42)
    docs, generation = split_bodies([{**body, "model": "m", "n": 1, "user": None} for body in bodies])
    settings = {name: value for name, value in generation.items() if name not in ("until", "max_gen_toks")}
    for body, doc in zip(bodies, docs, strict=True):
        stop, limit = tuple(generation["until"]), generation.get("max_gen_toks", 7)
        asked = Request("t/0", "t", 0, 0, "chat", json.dumps(doc), stop, limit, settings)
        made_again = make_chat_body(asked, read_conversation(asked), model="m", seed=42)
        limit = made_again.pop("max_tokens", made_again.pop("max_completion_tokens", None))
        expected = {**body, "model": "m"}
        assert limit == expected.pop("max_tokens", expected.pop("max_completion_tokens", None))
        assert made_again == expected
