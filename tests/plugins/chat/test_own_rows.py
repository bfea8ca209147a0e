"""Rows of one's own through a chat endpoint: what they lack, and what changes between two runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from chat_server import Body, ChatServer, completion
from command import cli
from packs import some_templates
from rows import make_row, write_rows

TASK = "meta_mmlu_pro_instruct"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._FIRST", 0.01)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))


def answer(_: Body) -> Body:
    return completion("The best answer is B.")


def rows(folder: Path, count: int = 12, without: tuple[str, ...] = (), **columns: Any) -> Path:
    """Write rows of a chat, of which some columns are others or are missing."""
    made = [
        make_row(
            (question := f"What is {number} + {number}?"),
            prompts=[
                f"<|start_header_id|>user<|end_header_id|>\n\n{question}<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n"
            ],
            **columns,
        )
        for number in range(count)
    ]
    some = [{name: value for name, value in row.items() if name not in without} for row in made]
    return write_rows(folder / "my_evals" / "mmlu_pro.jsonl", some)


def tell(server: ChatServer, folder: Path, *words: str, **keys: Any) -> Any:
    settings = {
        "model_name": "tiny", "evals_dataset": "./my_evals", "tasks": TASK, "backend": "chat", "base_url": server.url,
        "max_model_len": 65536, **keys,
    }  # fmt: skip
    if not (folder / "meta_template").exists():
        some_templates(folder, "mmlu_pro", "gpqa")
    (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return cli(*words, cwd=folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 12 rows and the pack of them."""
    folder = tmp_path_factory.mktemp("made")
    rows(folder)
    with ChatServer(answer) as server:
        assert tell(server, folder, "prepare").returncode == 0
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """Its copy."""
    return Path(shutil.copytree(made, tmp_path / "place"))


def test_rows_without_recorded_answers_are_asked_and_graded(tmp_path: Path) -> None:
    rows(tmp_path, without=("output_prediction_text",))
    with ChatServer(answer) as server:
        done = tell(server, tmp_path, "run", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["asked"] == 12
        loaded = tell(server, tmp_path, "load", "--concurrency", "4", "--docs", "4", "--traffic", "0")
        assert loaded.returncode in (0, 3), loaded.stderr
    for words in (["verify"], ["report", "eval_results"], ["compare", "eval_results", "eval_results"]):
        assert cli(*words, cwd=tmp_path).returncode in (0, 1, 3)
    audited = cli("audit", "--pack", "work_dir", cwd=tmp_path)
    assert audited.returncode == 2 and "holds no recorded answers" in audited.stderr


def test_rows_with_null_hashes_pair_with_their_recorded_answers(tmp_path: Path) -> None:
    rows(tmp_path, input_question_hash=None, input_final_prompts_hash=None)
    with ChatServer(answer) as server:
        done = tell(server, tmp_path, "run", "--no-report")
    assert done.returncode == 0, done.stderr
    (task,) = json.loads(cli("report", "eval_results", "--pack", "work_dir", "--json", cwd=tmp_path).stdout)["tasks"]
    assert (task["docs"], task["drop"]["value"]) == (12, 0)
    shown = cli("report", "eval_results", "--pack", "work_dir", cwd=tmp_path).stdout
    assert "Beside the record's answers" in shown and "Meta" not in shown


def test_rows_that_changed_are_prepared_again_and_those_that_did_not_are_not(place: Path) -> None:
    file = place / "my_evals" / "mmlu_pro.jsonl"
    with ChatServer(answer) as server:

        def asked(*words: str) -> tuple[int, str]:
            done = tell(server, place, "run", "--no-report", "--json", *words)
            assert done.returncode == 0, done.stderr
            report = json.loads(cli("report", "eval_results", "--pack", "work_dir", "--json", cwd=place).stdout)
            return report["tasks"][0]["docs"], done.stderr

        assert asked()[0] == 12
        os.utime(file, (1, 1))
        assert "changed since" not in asked()[1]
        rows(place, 5)
        kept, said = asked("--edited")
        assert (
            kept == 12 and "my_evals/mmlu_pro.jsonl changed since work_dir was prepared, and work_dir is used" in said
        )
        note = "my_evals/mmlu_pro.jsonl changed since work_dir was prepared: `meta-eval prepare` makes it again"
        assert note in cli("verify", cwd=place).stderr
        left, said = asked()
        assert note not in cli("verify", cwd=place).stderr
        assert left == 5 and said.count("changed since work_dir was prepared: preparing it again") == 1
        shutil.rmtree(place / "my_evals")
        assert asked()[0] == 5, "the pack is complete without the rows"


def test_a_template_that_changed_is_prepared_again(place: Path) -> None:
    with ChatServer(answer) as server:
        first = tell(server, place, "run", "--no-report", "--json")
        (template,) = (place / "meta_template" / "mmlu_pro").glob("*instruct*.yaml")
        template.write_text(template.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
        again = tell(server, place, "run", "--no-report", "--json")
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    name = template.relative_to(place)
    assert f"{name} changed since work_dir was prepared: preparing it again" in again.stderr
    assert json.loads(again.stdout)["asked"] == 0


def test_a_file_of_questions_and_answers_is_answered_with_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "qa.jsonl").write_text('{"question": "What is 2 + 2?", "answer": "4"}\n', encoding="utf-8")
    done = cli(
        "prepare",
        *("--set", "model_name=tiny", "--set", "evals_dataset=./qa.jsonl", "--set", "tasks=quiz"),
        cwd=tmp_path,
    )
    assert done.returncode == 2 and "set evals_dataset: lm-eval" in done.stderr


def test_first_words_stop_only_a_run_of_the_recorded_model(tmp_path: Path) -> None:
    """Rows name no model. A batch record does, and is of this one."""
    rows(tmp_path, 20, output_prediction_text=["Surely B."])
    with ChatServer(answer) as server:
        done = tell(server, tmp_path, "run", "--no-report", "--json")
        assert done.returncode == 0, done.stderr
        assert (
            "0 of 20 answers begin as the recorded one. This stops nothing, because the record names no model"
            in done.stderr
        )

        write_batch(tmp_path / "rec", model="org/Tiny")
        keys = {"evals_dataset": "./rec", "tasks": "recorded", "output_path": "out"}
        stopped = tell(server, tmp_path, "run", "--json", **keys)
        assert stopped.returncode == 2 and "0 of 20 answers begin as the recorded one" in stopped.stderr
        assert "adds no system prompt" in stopped.stderr and "BOS" not in stopped.stderr
        write_batch(tmp_path / "rec", model="another")
        assert tell(server, tmp_path, "run", "--no-report", "--json", **keys).returncode == 0


def write_batch(folder: Path, *, model: str) -> None:
    """Write batch files of 20 requests that a model has answered."""
    folder.mkdir(exist_ok=True)
    asked, said = [], []
    for number in range(20):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": f"Number {number}?"}],
            "temperature": 0,
            "max_tokens": 9,
        }
        asked.append({"custom_id": f"q-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})
        made = completion("Surely B.", model=model)
        said.append({"custom_id": f"q-{number}", "response": {"status_code": 200, "body": made}, "error": None})
    write_rows(folder / "requests.jsonl", asked)
    write_rows(folder / "output.jsonl", said)


def test_a_pack_whose_prompts_are_no_chats_is_told_so_when_it_is_prepared(tmp_path: Path) -> None:
    write_rows(tmp_path / "my_evals" / "mmlu_pro.jsonl", [make_row(prompts=["Question: 2 + 2?\nAnswer:"])])
    with ChatServer(answer) as server:
        prepared = tell(server, tmp_path, "prepare")
        asked = tell(server, tmp_path, "run", "--json")
    assert prepared.returncode == 0 and asked.returncode == 2
    why = "the prompt has no headers of chat turns"
    assert why in asked.stderr
    assert f"{TASK}: `meta-eval run` will leave it out with backend chat: {why}" in prepared.stderr
    assert "next: name another backend" in prepared.stderr and "meta-eval run\n" not in prepared.stderr


def test_a_task_that_is_left_out_is_not_unfinished_too(tmp_path: Path) -> None:
    with ChatServer(answer) as server:
        done = tell(server, tmp_path, "run", "--json", evals_dataset="sample", tasks=f"{TASK},meta_gpqa", limit=3)
    assert list(json.loads(done.stdout)["left_out"]) == ["meta_gpqa"], done.stderr
    assert "unfinished" not in done.stderr


@pytest.mark.plugin("load")
def test_answers_that_load_itself_cuts_are_not_laid_to_the_engine(place: Path) -> None:
    words = ("load", "--concurrency", "4", "--docs", "6", "--traffic", "0", "--max-tokens", "3")
    with ChatServer(lambda _: completion("The best", "length")) as server:
        done = tell(server, place, *words)
    assert done.returncode in (0, 3) and "limit of the engine's own" not in done.stderr


def test_a_metric_that_the_grader_does_not_give_is_named(tmp_path: Path) -> None:
    write_rows(tmp_path / "my_tasks" / "questions.jsonl", [{"question": f"{n}?", "answer": "B"} for n in range(3)])
    (tmp_path / "my_tasks/quiz.py").write_text(
        "def grade(doc, results):\n    return {'found': 1.0}\n", encoding="utf-8"
    )
    (tmp_path / "my_tasks/my_quiz.yaml").write_text(
        "task: my_quiz\ndataset_path: json\ndataset_kwargs: {data_files: {test: my_tasks/questions.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        "process_results: !function quiz.grade\ngeneration_kwargs: {until: [], max_gen_toks: 8}\n"
        "metric_list: [{metric: fund, aggregation: mean, higher_is_better: true}]\n",
        encoding="utf-8",
    )
    keys = {"evals_dataset": "lm-eval", "template_dir": "./my_tasks", "tasks": "my_quiz"}
    with ChatServer(answer) as server:
        done = tell(server, tmp_path, "run", "--no-report", **keys)
    assert "my_quiz: its grader gives no fund,none, so reports have no score of it; it gives found,none" in done.stderr
