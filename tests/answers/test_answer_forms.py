"""A form of files of another package: export writes it, grade reads it, and a broken one stops nothing."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from command import cli
from noted import noted
from one_task import run
from packs import prepare, read_docs
from places import REPOSITORY

from meta_eval import export, grade
from meta_eval.base import extensions
from meta_eval.base.errors import UserError

GROUP = "meta_eval.answer_forms"
TASK = "meta_gpqa_cot"


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("pairs_form", REPOSITORY / "examples" / "pairs_form.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PairsForm


class Point(EntryPoint):
    def load(self) -> Any:
        return load_example() if self.name != "broken" else 1 / 0


def offer(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Forms, as if packages had them."""
    monkeypatch.setattr(extensions, "entry_points", lambda group: points if group == GROUP else [])
    monkeypatch.setattr(extensions, "_LOADED", {})


PAIRS = Point("pairs", "pairs_form:PairsForm", GROUP)


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, PAIRS)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("pack") / "work_dir", TASK)


def answered(pack: Path, folder: Path) -> Path:
    """The recorded answers in the form of the example."""
    for _ in range(2):  # again: it knows its own file
        export(pack, folder / "pairs.jsonl", to="pairs")
    docs = read_docs(pack, TASK)
    asked = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    lines = [{"uid": line["uid"], "completion": doc["recorded_output"]} for line, doc in zip(asked, docs, strict=True)]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "answers.jsonl"


@pytest.mark.plugin("meta")
def test_the_answers_of_another_form_get_the_scores_of_ours(forms: None, pack: Path, tmp_path: Path) -> None:
    done = grade(answered(pack, tmp_path), pack=pack, output=tmp_path / "out")
    assert (done.missing, set(done.scores)) == (0, {TASK})
    code, _, said = run("export", pack, "--to", "pairs", "--answered", tmp_path / "answers.jsonl")
    assert (code, "these files answer every request" in said) == (2, True)
    (tmp_path / "none.jsonl").write_text("\x01\x02")
    code, _, said = run("export", pack, "--to", "pairs", "--answered", tmp_path / "none.jsonl")
    assert (code, "--answered: these files hold no answer" in said) == (2, True), said


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '"completion": ',
            '"completion": null, "x": ',
            "line 1: not an answer: it holds a uid or a completion that is",
        ),
        (f"{TASK}/0#", f"{TASK}/0#0", "asked otherwise"),
        (f"{TASK}/0#", "other/0#", "1 answers are of another pack (other/0 in "),
        ('"uid"', '"id"', "line 1: not an answer: id or prompt_sha256 is missing"),
        ('"completion"', '"prompt"', "holds requests, not answers. Name the answers file"),
    ],
)
def test_a_wrong_line_of_another_form_is_named(
    old: str, new: str, words: str, forms: None, pack: Path, tmp_path: Path
) -> None:
    file = answered(pack, tmp_path)
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(UserError) as error:
        grade(file, pack=pack, output=tmp_path / "out")
    assert words in str(error.value)


@pytest.mark.plugin("meta")
def test_half_a_surrogate_pair_of_another_form_is_mended(forms: None, pack: Path, tmp_path: Path) -> None:
    file = answered(pack, tmp_path)
    file.write_text(file.read_text().replace('"completion": "', '"completion": "\\ud83d ', 1))
    assert grade(file, pack=pack, output=tmp_path / "out").missing == 0


@pytest.mark.parametrize("name", ["btach", "../x", ""])
def test_an_unknown_form_is_one_message(name: str, forms: None) -> None:
    code, out, said = run("export", "nowhere", "--to", name)
    assert (code, out) == (2, "")
    assert said == f"error: --to: unknown form {name}. Available: pairs, requests\n"


@pytest.mark.plugin("meta")
def test_a_broken_form_is_a_note_and_stops_no_grading(
    monkeypatch: pytest.MonkeyPatch, forms: None, pack: Path, tmp_path: Path
) -> None:
    file = answered(pack, tmp_path)
    offer(
        monkeypatch,
        Point("broken", "gone:Form", GROUP),
        PAIRS,
        *(Point("twice", name, GROUP) for name in ("a:F", "b:F")),
    )
    with noted() as notes:
        assert grade(file, pack=pack, output=tmp_path / "out").missing == 0
    assert any("gone:Form: cannot be loaded: ZeroDivisionError" in note for note in notes)
    assert any("'twice' is offered 2 times: a:F and b:F" in note for note in notes)


def test_a_misspelt_form_gets_the_nearest(tmp_path: Path) -> None:
    done = cli("export", "work_dir", "--to", "requets", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown form requets; did you mean 'requests'?" in done.stderr
