"""An endpoint that takes tools and makes its prompt without them: said first, and no fault of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from batch_service import completion, result, write
from chat_server import Body, ChatServer
from chat_server import completion as answer
from command import cli
from packs import look_at, prepare
from runs import write_run

from meta_eval import compare, report, verify
from meta_eval.plugins.chat.tools_check import ToolsCheck
from meta_eval.reports.report import Report

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = {"role": "assistant", "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}]}  # fmt: skip
MODELS = {"data": [{"id": "m", "owned_by": "fake", "max_model_len": 262144}]}
DOCS = 20
SETTINGS = {
    "model_name": "m", "evals_dataset": "record", "tasks": "recorded", "backend": "chat", "max_model_len": 4096,
    "concurrency": 4,
}  # fmt: skip


def make_record(folder: Path, first_with_tools: int = DOCS // 2) -> Path:
    """The first docs offer no tool, and the right answer is in words."""
    folder.mkdir()
    requests, results = [], []
    for number in range(DOCS):
        tools = {"tools": [TOOL]} if number >= first_with_tools else {}
        body = {"model": "m", "messages": [{"role": "user", "content": f"Add {number}."}], "max_tokens": 9, **tools}
        requests.append({"custom_id": f"q-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})
        body = completion(None, "m", "tool_calls", tool_calls=CALL["tool_calls"]) if tools else completion("six", "m")
        results.append(result(f"q-{number}", body))
    write(folder / "calls_requests.jsonl", requests)
    write(folder / "output.jsonl", results)
    return folder


def run(folder: Path, server: ChatServer, *words: str) -> tuple[Any, Report]:
    settings = {**SETTINGS, "base_url": server.url}
    (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    done = cli("run", "--no-report", "--json", *words, cwd=folder)
    assert done.stdout, done.stderr
    verify(folder / "work_dir")
    return done, report(folder / json.loads(done.stdout)["results"], pack=folder / "work_dir")


@pytest.mark.parametrize("drops", [True, False])
def test_what_lost_tools_cost_is_the_prompts_and_not_the_models(tmp_path: Path, drops: bool) -> None:
    def reply(body: Body) -> Body:
        tools = None if drops else body.get("tools")
        return answer(CALL if tools else "six", "tool_calls" if tools else "stop", prompt_tokens=57 if tools else 7,
                      model="m")  # fmt: skip

    make_record(tmp_path / "record")
    with ChatServer(reply, models=MODELS) as server:
        done, made = run(tmp_path, server)
    assert ("tools in the prompt" in done.stderr) is drops
    (task,) = made.tasks
    parts = task.drop_breakdown
    assert parts is not None and parts.model is not None
    assert (100 * parts.total.value, 100 * parts.model.value) == pytest.approx((50 if drops else 0, 0))
    assert (parts.prompts.value if parts.prompts else 0) == pytest.approx(0.5 if drops else 0)
    (alarm,) = [alarm for alarm in made.alarms if alarm.kind.startswith("tools")] or [None]
    assert (alarm is not None) is drops
    if alarm:
        assert (alarm.tasks[0].count, alarm.tasks[0].of, alarm.veto) == (DOCS // 2, DOCS, True)
        assert made.decision.outcome == "UNDECIDED"


def test_a_comparison_is_invalid_where_one_side_lost_its_tools(tmp_path: Path) -> None:
    prompt = json.dumps({"messages": [{"role": "user", "content": "x"}], "tools": [TOOL]})
    doc = {"prompt": prompt, "input_final_prompts_hash": ["a"]}
    sides = {}
    for name, lost in (("a", {}), ("b", {"tools_lost": True})):
        sides[name] = write_run(tmp_path / name, [1.0] * 150 + [0.0] * 50, doc=doc, line=lost)
    assert differences(sides["a"], sides["b"]) == ["200 of 200 docs had another prompt in B"]
    assert compare(sides["a"], sides["b"], margin=5).decision.outcome == "UNDECIDED"
    assert differences(sides["b"], sides["b"]) == [], "both alike"


def differences(a: Path, b: Path) -> list[str | None]:
    alarms = compare(a, b, margin=5).alarms
    return [task.note for alarm in alarms if alarm.kind == "runs not alike" for task in alarm.tasks]


def test_where_every_doc_lost_its_tools_the_canary_says_so_and_the_model_is_not_blamed(tmp_path: Path) -> None:
    make_record(tmp_path / "record", first_with_tools=0)
    with ChatServer(lambda _: answer("six", model="m"), models=MODELS) as server:
        settings = {**SETTINGS, "base_url": server.url}
        (tmp_path / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
        stopped = cli("run", "--no-report", cwd=tmp_path)
        _, made = run(tmp_path, server, "--no-canary")
    assert stopped.returncode == 2
    assert "The endpoint's chat template leaves tools out of the prompt" in stopped.stderr
    assert "BOS" not in stopped.stderr
    parts = made.tasks[0].drop_breakdown
    assert parts is not None
    assert (parts.model, parts.docs_with_other_prompt, parts.rest.value) == (None, DOCS, 1.0)


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("{{ messages }}", "failed"),
        ("{{ messages }}{{ tools }}", "passed"),
        ("{{ raise_exception('no') }}", "not checked"),
        (None, "not checked"),
    ],
)
def test_doctor_reads_the_template_before_anything_is_asked(prepared: Path, source: str | None, status: str) -> None:
    config = prepared.with_name("model") / "tokenizer_config.json"
    config.unlink(missing_ok=True)
    if source:
        config.write_text(json.dumps({"chat_template": source}), encoding="utf-8")
    (check,) = ToolsCheck().check(look_at(prepared))
    assert check.status == status


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack whose model's folder, beside it, is still empty."""
    folder = tmp_path_factory.mktemp("doctor")
    record, model = make_record(folder / "record"), folder / "model"
    model.mkdir()
    return prepare(folder / "pack", "recorded", evals_dataset=str(record), backend="chat", tokenizer=str(model))
