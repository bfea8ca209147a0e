"""audit: an endpoint's answers are scored once by the trusted copy, and judged."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from accelerator import answer as answer_requests
from accelerator import lines_of
from command import cli
from fake_model import FakeClient, model_folder
from packs import prepare, read_docs
from rows import make_row, write_rows

from meta_eval import export
from meta_eval.base.errors import UserError
from meta_eval.harness.answer import AnswersError
from meta_eval.judge.token_table import read_tokens
from meta_eval.plugins.tokens.api import audit

TASK = "meta_mmlu_pro_instruct"
TEXT = "The best answer is certainly none of the others."


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.plugins.tokens.token_scoring.find_client", lambda *_backend, **_keys: made)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack, and an endpoint's answers to its requests."""
    folder = tmp_path_factory.mktemp("made")
    with chdir(folder):
        model_folder(folder / "m")
        pack = prepare(folder / "work_dir", TASK, model_name="m", output_path="out")
        export(pack, folder / "requests.jsonl")
        answer_requests(pack, folder / "requests.jsonl", folder / "answers.jsonl", change=lambda _text, _request: TEXT)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rewrite(path: Path, **fields: Any) -> None:
    rows = [{**row, **fields} if "id" in row else row for row in lines_of(path)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_tokens_of_the_endpoints_answers_are_in_the_table(folder: Path) -> None:
    from tokenizers import Tokenizer

    report = audit(["answers.jsonl"], pack="work_dir", top_k=0)
    tokenizer = Tokenizer.from_file("m/tokenizer.json")
    rows = list(read_tokens(Path(report.table)))
    assert len(rows) == len(read_docs(folder / "work_dir", TASK))
    assert {tokenizer.decode(row.token_ids) for row in rows} == {TEXT}
    assert report.outcome == "undecided" and "too few answers" in report.summary


def test_a_second_call_asks_nothing_again(folder: Path, client: type[FakeClient]) -> None:
    first = audit(["answers.jsonl"], pack="work_dir", top_k=0)
    asked = len(client.asked)
    assert audit(["answers.jsonl"], pack="work_dir", top_k=0) == first
    assert len(client.asked) == asked > 0


def test_more_prompt_tokens_than_the_pack_has_are_named(folder: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file("m/tokenizer.json")
    prompts = {row["id"]: row["prompt"] for row in lines_of(folder / "requests.jsonl") if "id" in row}
    rows = lines_of(folder / "answers.jsonl")
    for row in rows:
        if "id" in row:
            ids = tokenizer.encode(prompts[row["id"]], add_special_tokens=False).ids
            row["prompt_tokens"] = len(ids) + (ids[:1] != [tokenizer.token_to_id("<|begin_of_text|>")]) + 7
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = audit(["answers.jsonl"], pack="work_dir", top_k=0)
    assert report.prompts is not None and (report.prompts.more, report.prompts.share) == (7, 1.0)
    assert [cause.key for cause in report.causes] == ["prompt"]
    assert report.outcome != "same"


def test_answers_of_a_single_token_are_left_out_and_counted(folder: Path) -> None:
    rows = lines_of(folder / "answers.jsonl")
    short = {row["id"] for row in rows if "id" in row and row["id"].endswith(("/0", "/1"))}
    changed = ({**row, "text": "A"} if row.get("id") in short else row for row in rows)
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))
    report = audit(["answers.jsonl"], pack="work_dir", top_k=0)
    assert f"{len(short)} answers left out: no token can be scored" in report.notes


def test_rows_of_ones_own_need_no_bos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They name no model, so that the trusted copy may be one whose tokenizer adds none."""
    monkeypatch.chdir(tmp_path)
    model_folder(tmp_path / "no_bos")
    tokenizer = json.loads(Path("no_bos/tokenizer.json").read_text())
    Path("no_bos/tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
    write_rows(tmp_path / "my_evals/mmlu_pro.jsonl", [make_row(f"What is {n} + {n}?", output=TEXT) for n in range(12)])
    prepare(tmp_path / "work_dir", TASK, model_name="no_bos", output_path="out", evals_dataset="./my_evals")
    assert audit([], pack="work_dir", top_k=0).outcome == "undecided"
    prepare(tmp_path / "of_llama", TASK, model_name="no_bos", output_path="out2")
    with pytest.raises(UserError, match="key tokenizer"):
        audit([], pack="of_llama", top_k=0)


def test_a_copy_without_a_tokenizer_here_is_told_of_the_key(folder: Path) -> None:
    done = cli("audit", "answers.jsonl", "--pack", "work_dir", "--set", "model_name=not/here", cwd=folder)
    assert done.returncode == 2 and "set tokenizer to a hub id or a folder" in done.stderr


def test_the_title_tells_two_models_of_one_name_apart(folder: Path) -> None:
    rewrite(folder / "answers.jsonl", model="m")
    title = audit(["answers.jsonl"], pack="work_dir", top_k=0).document().title
    assert title.startswith("Answers of m (answers.jsonl) scored by the trusted copy m on ")


def test_the_title_names_the_answers_and_no_private_folder(folder: Path) -> None:
    rewrite(folder / "answers.jsonl", model="other")
    title = audit([folder / "answers.jsonl"], pack="work_dir", top_k=0).document().title
    assert title == "Answers of other (answers.jsonl) scored by m"


@pytest.mark.plugin("chat")
def test_chats_of_ones_own_are_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests and results of any batch file make a pack; another endpoint's results are audited beside its requests."""
    monkeypatch.chdir(tmp_path)
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
    model_folder(tmp_path / "m")
    (tmp_path / "m/tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    (tmp_path / "chats").mkdir()
    for place, text in (("chats", "It is made of flour."), (".", TEXT)):
        requests, results = [], []
        for n in range(3):
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": f"What is bread, {n}?"}],
                "max_tokens": 20,
                "temperature": 0,
            }
            requests.append({"custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions", "body": body})
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            answered = {"status_code": 200, "body": {"model": "m", "choices": [choice]}}
            results.append({"custom_id": f"c{n}", "response": answered, "error": None})
        for name, rows in (("requests", requests), ("output", results)):
            (tmp_path / place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pack = prepare(tmp_path / "work_dir", "recorded", evals_dataset="./chats", model_name="m", output_path="out")
    done = cli("fidelity", "work_dir")
    assert done.returncode == 2 and "chat messages" in done.stderr
    assert done.stderr.endswith("meta-eval audit --pack work_dir\n")
    named = cli(
        "audit", "output.jsonl", "--pack", "work_dir", "--set", "model_name=m.gguf", "--set", "backend=llamacpp"
    )
    assert named.returncode == 2 and "--set tokenizer=org/model" in named.stderr
    report = audit(["output.jsonl", "requests.jsonl"], pack=pack, top_k=0)
    assert report.verdicts[0].figures.docs == 3
    shown = cli("audit", "output.jsonl", "requests.jsonl", "--pack", "work_dir", "--top-k", "0").stdout
    assert "e-0" not in shown and "No larger" not in shown
    with pytest.raises(AnswersError, match="of another pack"):
        audit(["output.jsonl"], pack=pack, top_k=0)


def test_without_files_the_recorded_answers_are_audited(folder: Path) -> None:
    from tokenizers import Tokenizer

    report = audit(pack="work_dir", top_k=0)
    recorded = read_docs(folder / "work_dir", TASK)
    tokenizer = Tokenizer.from_file("m/tokenizer.json")
    rows = list(read_tokens(Path(report.table)))
    assert Path(report.table).parent.name == "recorded"
    assert {tokenizer.decode(row.token_ids) for row in rows} == {doc["recorded_output"] for doc in recorded}


def test_answers_of_another_pack_are_refused(folder: Path, client: type[FakeClient]) -> None:
    rewrite(folder / "answers.jsonl", prompt_sha256="0" * 64, request_sha256=None)
    with pytest.raises(AnswersError, match="of another pack"):
        audit(["answers.jsonl"], pack="work_dir")
    assert not client.asked


@pytest.mark.parametrize("text", ["", "no JSON\n"])
def test_a_file_without_an_answer_is_named(text: str, folder: Path, client: type[FakeClient]) -> None:
    (folder / "answers.jsonl").write_text(text)
    with pytest.raises(UserError, match="answers.jsonl: no line is an answer"):
        audit(["answers.jsonl"], pack="work_dir")
    assert not client.made


def test_a_noise_that_is_not_there_is_refused_before_anything_is_asked(folder: Path, client: type[FakeClient]) -> None:
    with pytest.raises(UserError, match="nowhere"):
        audit(["answers.jsonl"], pack="work_dir", noise="nowhere")
    assert not client.made


def test_answers_are_no_noise_of_their_own(folder: Path) -> None:
    table = audit(["answers.jsonl"], pack="work_dir").table
    with pytest.raises(UserError, match="is the table of the answers that are audited"):
        audit(["answers.jsonl"], pack="work_dir", noise=table)


def test_a_noise_that_another_copy_scored_is_named(folder: Path) -> None:
    shutil.copytree("m", "n")
    other = audit(["answers.jsonl"], pack="work_dir", overrides=["model_name=n"], output="own").table
    report = audit(["answers.jsonl"], pack="work_dir", noise=other)
    assert "the noise was scored by n, and the answers by m" in report.notes


def test_a_noise_with_another_tokenizer_is_refused_before_anything_is_asked(
    folder: Path, client: type[FakeClient]
) -> None:
    shutil.copytree("m", "n")
    with Path("n/tokenizer.json").open("a") as file:
        file.write("\n")
    other = audit(["answers.jsonl"], pack="work_dir", overrides=["model_name=n"], output="own").table
    client.asked.clear()
    with pytest.raises(UserError, match="its tokens come from a different tokenizer than m's"):
        audit(["answers.jsonl"], pack="work_dir", noise=other)
    assert not client.asked
    audit(["answers.jsonl"], pack="work_dir")
    with pytest.raises(UserError, match="its tokens come from a different tokenizer than m's"):  # nothing is to ask
        audit(["answers.jsonl"], pack="work_dir", noise=other)


def test_a_noise_of_another_pack_is_refused_before_anything_is_asked(folder: Path, client: type[FakeClient]) -> None:
    prepare(folder / "other_dir", TASK, model_name="m", output_path="out", limit=3)
    other = audit(pack="other_dir", output="own").table
    client.asked.clear()
    with pytest.raises(UserError, match="is of another pack than work_dir"):
        audit(["answers.jsonl"], pack="work_dir", noise=other)
    assert not client.asked


def test_a_noise_of_none_of_these_docs_is_refused(folder: Path) -> None:
    rows = lines_of(folder / "answers.jsonl")
    for name, some in {"a.jsonl": rows[:5], "b.jsonl": rows[5:]}.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in some))
    other = audit(["b.jsonl"], pack="work_dir", output="own").table
    with pytest.raises(UserError, match="has no doc in common with"):
        audit(["a.jsonl"], pack="work_dir", noise=other)


def test_answers_of_two_models_are_refused(folder: Path) -> None:
    rows = lines_of(folder / "answers.jsonl")
    for name, some in {"a": rows[:5], "b": rows[5:]}.items():
        (folder / name).write_text("".join(json.dumps({**row, "model": name}) + "\n" for row in some))
    with pytest.raises(UserError, match="are of a, b"):
        audit(["a", "b"], pack="work_dir")


def test_the_command_writes_a_page_and_json(folder: Path) -> None:
    words = ("audit", "answers.jsonl", "--pack", "work_dir", "--html", "audit.html", "--markdown", "audit.md", "--json")
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert (tree["document_type"], tree["outcome"]) == ("audit", "undecided")
    assert "Greedy answers" in (folder / "audit.html").read_text()
    assert "regret" in (folder / "audit.md").read_text()
