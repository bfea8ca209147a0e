"""Batch files: export writes them, and grade reads the results of any service, its errors included."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accelerator import answer as answer_requests
from accelerator import lines_of
from batch_service import Line, answer, completion, expired, failed_on_vllm, refused, result, write
from hypothesis import given
from hypothesis import strategies as st
from one_task import run
from packs import edit, prepare, read_docs, reseal, yaml_of

from meta_eval import export, grade
from meta_eval.ask.answer_files import read_answers
from meta_eval.ask.request import Request
from meta_eval.base.errors import UserError
from meta_eval.harness.answer import AnswersError
from meta_eval.plugins.chat.batch_files import (
    BatchRequest,
    format_batch_request,
    is_batch_request,
    is_batch_result,
    read_batch_request,
    read_batch_result,
)
from meta_eval.plugins.chat.batch_form import make_custom_id, split_custom_id

TEXTS, BEGUN, CHOICES = "meta_gpqa_cot", "meta_gpqa", "meta_mmlu_pretrain"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack, its batch file, and the results with the recorded answers."""
    folder = tmp_path_factory.mktemp("made")
    pack = prepare(folder / "work_dir", TEXTS)
    export(pack, folder / "batch.jsonl", to="batch")
    docs = read_docs(pack, TEXTS)
    numbers = {line["custom_id"]: number for number, line in enumerate(lines_of(folder / "batch.jsonl"))}
    answer(
        folder / "batch.jsonl",
        folder / "results.jsonl",
        lambda line: docs[numbers[line["custom_id"]]]["recorded_output"],
    )
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "place"))


def scores(place: Path, *files: Path, **options: Any) -> dict[str, dict[str, float]]:
    return grade(files or [place / "results.jsonl"], pack=place / "work_dir", output=place / "out", **options).scores


def changed(place: Path, change: Callable[[list[Line]], Any], name: str = "changed.jsonl") -> Path:
    """The results with a change; ``change`` edits the list of lines."""
    lines = lines_of(place / "results.jsonl")
    change(lines)
    return write(place / name, lines)


def refusal(place: Path, *files: Path, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        scores(place, *files, **options)
    return str(error.value)


# What export writes


def test_a_line_is_a_request_that_any_service_takes(place: Path) -> None:
    lines = lines_of(place / "batch.jsonl")
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    body = lines[0]["body"]
    assert body.keys() == {"model", "messages", "max_tokens", "temperature"}
    assert (body["model"], body["temperature"], [message["role"] for message in body["messages"]]) == (
        "my/model", 0.0, ["user"],
    )  # fmt: skip
    assert len({line["custom_id"] for line in lines}) == len(lines)
    assert max(len(line["custom_id"]) for line in lines) <= 64


def test_tasks_that_are_no_chat_are_refused_and_the_others_named(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", f"{TEXTS},{BEGUN},{CHOICES}")
    code, _, said = run("export", pack, "--to", "batch", "--output", tmp_path / "batch.jsonl")
    assert (code, said.count("\n"), (tmp_path / "batch.jsonl").exists()) == (2, 1, False)
    assert said.startswith("error: --to batch: cannot be asked as chat: ")
    assert f"{CHOICES}: it asks how likely given texts are" in said
    assert f"{BEGUN}: the prompt begins the answer itself" in said
    assert said.endswith(f"Name the tasks that can: --tasks {TEXTS}\n")


def test_the_requests_of_fidelity_are_no_batch(place: Path) -> None:
    with pytest.raises(UserError, match="^--force: --to batch does not take it"):
        export(place / "work_dir", place / "force.jsonl", to="batch", force=True)
    assert run("export", place / "work_dir", "--to", "batch", "--force")[0] == 2


def test_a_batch_file_of_somebody_is_not_replaced(place: Path) -> None:
    line = lines_of(place / "batch.jsonl")[0]
    write(place / "mine.jsonl", [{**line, "custom_id": "request-1"}])
    with pytest.raises(UserError, match="is no output of this kind that meta-eval wrote, so it is not replaced"):
        export(place / "work_dir", place / "mine.jsonl", to="batch")


def test_each_repeat_of_a_doc_is_sampled_with_its_own_seed(place: Path) -> None:
    pack = place / "work_dir"
    edit(pack / "_cot_letter_yaml", "do_sample: false", "do_sample: true")
    edit(yaml_of(pack, TEXTS), "process_docs:", "repeats: 2\nprocess_docs:")
    reseal(pack)
    export(pack, place / "batch.jsonl", to="batch")
    first, second, *_ = lines_of(place / "batch.jsonl")
    assert (first["body"]["messages"], first["custom_id"]) != (second["body"]["messages"], second["custom_id"])
    assert [line["body"]["seed"] for line in (first, second)] == [42, 43]


def test_what_failed_is_asked_in_another_batch(place: Path) -> None:
    file = changed(place, lambda lines: lines[0].update(expired(lines[0]["custom_id"])))
    with (place / "changed.jsonl").open("r+b") as out:
        out.truncate(out.seek(0, 2) - 30)
    said = run("export", place / "work_dir", "--to", "batch", "--answered", file, "--output", place / "again.jsonl")
    lines = lines_of(place / "batch.jsonl")
    assert (said[0], lines_of(place / "again.jsonl")) == (0, [lines[0], lines[-1]])
    whole = {line["custom_id"]: line for line in lines_of(place / "results.jsonl")}
    again = write(place / "second.jsonl", [whole[line["custom_id"]] for line in (lines[0], lines[-1])])
    assert scores(place, file, again) == scores(place)


def test_where_every_request_is_answered_nothing_is_written(place: Path) -> None:
    with pytest.raises(UserError, match="^--answered: these files answer every request"):
        export(place / "work_dir", place / "again.jsonl", answered=[place / "results.jsonl"])
    assert not (place / "again.jsonl").exists()


# What grade reads


def test_results_get_the_scores_of_the_same_answers_in_our_format(place: Path) -> None:
    export(place / "work_dir", place / "requests.jsonl")
    answer_requests(place / "work_dir", place / "requests.jsonl", place / "answers.jsonl")
    assert scores(place) == scores(place, place / "answers.jsonl")


def test_the_report_names_the_model_of_the_results(place: Path) -> None:
    done = grade([place / "results.jsonl"], pack=place / "work_dir", output=place / "out")
    assert (done.model, done.speed.prompt_tokens) == ("their/model", 7 * len(lines_of(place / "results.jsonl")))


def test_the_order_of_lines_does_not_matter(place: Path) -> None:
    assert scores(place, changed(place, list.reverse)) == scores(place)


def test_a_file_of_errors_beside_the_results_is_read_with_them(place: Path) -> None:
    lines = lines_of(place / "results.jsonl")
    output, errors = (
        write(place / "output.jsonl", lines[1:]),
        write(place / "errors.jsonl", [refused(lines[0]["custom_id"])]),
    )
    said = refusal(place, output, errors)
    assert f"1 failed ({TEXTS}/0: HTTP 400: invalid_request_error: Unsupported parameter: 'seed')" in said
    assert said.endswith("Answer what is missing and append it, or grade what is there with --partial")
    done = grade([output, errors], pack=place / "work_dir", output=place / "out", partial=True)
    assert (done.missing, done.failed) == (0, 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (expired, "batch_expired: The completion window is over."),
        (failed_on_vllm, "400: too long"),
        (lambda name: result(name, {"error": "<html>"}, status=502), "HTTP 502: <html>"),
        (lambda name: result(name, None), "it has neither a response nor an error"),
        (lambda name: result(name, {"choices": []}), "the response holds no choices"),
        (lambda name: result(name, completion("x", finish="abort")), "the response ended with 'abort'"),
        (lambda name: result(name, None, error="stream mode"), "stream mode"),
        (lambda name: result(name, None, error={}), "no reason was given"),
        (lambda name: result(name, {"error": "slow down"}, status="429"), "HTTP 429: slow down"),
        (lambda name: result(name, completion("x"), status="fine"), "its status_code is no number"),
        (lambda name: result(name, completion("x"), status=None), "its status_code is no number"),
    ],
)
def test_a_failed_request_is_named_with_the_services_own_words(
    make: Callable[[str], Line], reason: str, place: Path
) -> None:
    def fail(lines: list[Line]) -> None:
        lines[0] = make(lines[0]["custom_id"])

    file = changed(place, fail)
    assert f"1 failed ({TEXTS}/0: {reason})" in refusal(place, file)
    assert scores(place, file, partial=True)


def test_a_status_may_be_a_number_in_a_text(place: Path) -> None:
    def quote(lines: list[Line]) -> None:
        for line in lines:
            line["response"]["status_code"] = str(line["response"]["status_code"])

    assert scores(place, changed(place, quote)) == scores(place)


def test_two_answers_where_one_was_asked_are_a_failure(place: Path) -> None:
    def double(lines: list[Line]) -> None:
        choices = lines[0]["response"]["body"]["choices"]
        choices.append({**choices[0], "index": 1})

    assert "the response holds 2 answers, and one was asked" in refusal(place, changed(place, double))


def test_a_missing_line_and_a_truncated_one_are_answers_that_are_missing(place: Path) -> None:
    whole = (place / "results.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (place / "cut.jsonl").write_bytes(b"".join(lines[1:])[:-30])
    said = refusal(place, place / "cut.jsonl")
    assert f"2 have no answer ({TEXTS}/0, {TEXTS}/{len(lines) - 1}); 1 line cut off" in said


def test_a_request_that_was_answered_after_its_failure_has_an_answer(place: Path) -> None:
    file = changed(place, lambda lines: lines.append(expired(lines[0]["custom_id"])))
    assert scores(place, file) == scores(place)


def test_the_same_line_twice_counts_once_and_two_answers_are_refused(place: Path) -> None:
    assert scores(place, changed(place, lambda lines: lines.append(lines[0]))) == scores(place)
    other = changed(place, lambda lines: lines.append(result(lines[0]["custom_id"], completion("other"))))
    assert f"1 have answers that are not alike ({TEXTS}/0 in " in refusal(place, other)
    assert scores(place, other, prefer="last")


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_two_answers_in_two_forms_are_refused_too(place: Path, hashed: bool, first: str) -> None:
    export(place / "work_dir", place / "requests.jsonl")
    answer_requests(place / "work_dir", place / "requests.jsonl", place / "answers.jsonl")
    unsaid = ("model",) if hashed else ("model", "request_sha256")
    line = {name: value for name, value in lines_of(place / "answers.jsonl")[0].items() if name not in unsaid}
    same, other = write(place / "same.jsonl", [line]), write(place / "other.jsonl", [{**line, "text": "other"}])
    theirs = place / "results.jsonl"
    assert scores(place, same, theirs) == scores(place, theirs, same) == scores(place)
    order = [other, theirs] if first == "ours" else [theirs, other]
    told = f"1 have answers that are not alike ({TEXTS}/0 in {order[0]}, line 1 and {order[1]}, line 1)"
    assert told in refusal(place, *order)
    done = grade(order, pack=place / "work_dir", output=place / "last", prefer="last")
    (sample_file,) = done.results.parent.glob("samples_*.jsonl")
    assert ("other" in str(lines_of(sample_file)[0]["resps"])) == (first == "theirs")


def test_an_answer_in_another_form_after_a_failure_counts(place: Path) -> None:
    export(place / "work_dir", place / "requests.jsonl")
    answer_requests(place / "work_dir", place / "requests.jsonl", place / "answers.jsonl")
    line = lines_of(place / "answers.jsonl")[0]
    named = {name: line[name] for name in ("id", "prompt_sha256", "request_sha256")}
    failed = write(place / "failed.jsonl", [{**named, "error": "out of memory"}])
    assert scores(place, failed, place / "results.jsonl") == scores(place)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_message_that_no_model_wrote_is_a_failure(place: Path, role: str) -> None:
    file = changed(place, lambda lines: lines[0]["response"]["body"]["choices"][0]["message"].update(role=role))
    assert f"1 failed ({TEXTS}/0: the response holds a message of the role '{role}')" in refusal(place, file)


def test_an_answer_that_names_its_choices_twice_is_refused(place: Path) -> None:
    text = (place / "results.jsonl").read_text(encoding="utf-8")
    file = place / "twice.jsonl"
    file.write_text(text.replace('"choices":', '"choices": [], "choices":', 1), encoding="utf-8")
    assert f"{file}, line 1: not an answer: it names 'choices' twice in one object" in refusal(place, file)


def test_answers_of_two_models_are_refused(place: Path) -> None:
    def rename(lines: list[Line]) -> None:
        lines[-1]["response"]["body"]["model"] = "another"

    assert "these answers come from 2 models: another (" in refusal(place, changed(place, rename))


@pytest.mark.parametrize("name", ["request-17", f"{TEXTS}/0", f"{TEXTS}/99-0123456789ab"])
def test_a_custom_id_that_no_request_has_is_refused(name: str, place: Path) -> None:
    file = changed(place, lambda lines: lines.append(result(name, completion("x"))))
    if name == f"{TEXTS}/0":  # an id alone does not say what was asked
        file = changed(place, lambda lines: lines[0].update(custom_id=name))
    assert "1 answers are of another pack (" in refusal(place, file)


def test_an_answer_to_another_request_of_that_name_is_refused(place: Path) -> None:
    pack = place / "work_dir"
    edit(pack / "_cot_letter_yaml", "do_sample: false", "do_sample: false\n  top_p: 0.5")
    reseal(pack)
    assert "asked otherwise" in refusal(place)


def test_the_file_of_requests_is_no_file_of_answers(place: Path) -> None:
    assert refusal(place, place / "batch.jsonl") == (
        f"{place / 'batch.jsonl'}: holds requests, not answers. Name the answers file"
    )


# The parser

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
odd_results = st.fixed_dictionaries(
    {"custom_id": json_values},
    optional={
        "error": json_values,
        "response": json_values | st.fixed_dictionaries({}, optional={"status_code": json_values, "body": json_values}),
    },
)


@given(odd_results)
def test_a_result_is_an_answer_or_a_reason_or_refused_in_a_line(content: Line) -> None:
    if not is_batch_result(content):
        return
    try:
        read = read_batch_result(content)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    assert (read.completion is None) == (read.error is not None)


@given(st.lists(odd_results | json_values, max_size=4))
def test_no_file_of_results_ends_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: list[Any]) -> None:
    file = tmp_path_factory.getbasetemp() / "odd.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in content))
    try:
        read_answers([file])
    except AnswersError as error:
        assert "\n" not in str(error)


@given(st.text(min_size=1, max_size=80), st.integers(0, 3))
def test_a_custom_id_says_which_request_it_is_of(name: str, repeat: int) -> None:
    request = Request(name, "t", 0, repeat, "generate", "prompt")
    assert split_custom_id(make_custom_id(request)) == (name, request.sha256[:12])


@given(st.text(min_size=1), st.dictionaries(st.text(), json_values, max_size=3))
def test_a_request_that_was_written_reads_the_same(custom_id: str, fields: dict[str, Any]) -> None:
    written = BatchRequest(custom_id, {**fields, "messages": [{"role": "user", "content": "hi"}]})
    line = json.loads(json.dumps(format_batch_request(written)))
    assert is_batch_request(line) and not is_batch_result(line)
    assert read_batch_request(line) == written


@given(json_values, json_values, json_values)
def test_a_request_is_read_or_refused_in_a_line(custom_id: Any, url: Any, body: Any) -> None:
    try:
        read_batch_request({"custom_id": custom_id, "url": url, "body": body})
    except ValueError as error:
        assert "\n" not in str(error)
