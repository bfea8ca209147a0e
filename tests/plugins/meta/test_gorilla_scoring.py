"""Gorilla's APIBench: an answer is looked up in the hub's database, and the domain of what is found must be the gold's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from packs import prepare
from shared import shared_templates
from tool_tasks import judge, make_docs

from meta_eval.base.errors import DataError, SourceError

_GOLDS = [
    [json.dumps({"domain": "Sight", "api_call": "load('acme/eye', size=3)"})],
    ["{'api_data': {'domain': 'Sight', 'api_call': \"Model.from_pretrained('acme/iris')\"}}"],
    ["<<<domain>>>: Sound, <<<api_call>>>: Model.from_pretrained('acme/ear'), <<<api_provider>>>: hub"],
    ["Model.from_pretrained('acme/nose')"],  # of a call alone the domain is the database's
    ["Sight"],
    ["Elsewhere"],
]


@pytest.mark.parametrize(
    ("number", "code", "expected"),
    [
        (0, "load('acme/eye', size=3)", True),
        (0, "load('acme/eye', 3)", True),
        (0, "load('acme/eye')", False),
        (0, 'load(  "acme/eye", size = 3, fast=True).eval()', True),
        (0, "Model.from_pretrained('acme/iris', fast=True)", True),  # of the same domain
        (0, "hub.Model.from_pretrained('acme/iris')", False),  # another name
        (0, "Other.from_pretrained('acme/iris')", False),
        (0, "wrap(Model.from_pretrained('acme/iris'))", True),
        (0, "Model.from_pretrained('acme/iris-large')", True),  # the entry's name stands in it
        (0, "Model.from_pretrained('acme/ear')", False),
        (0, "Model.from_pretrained('acme/iris'); Model.from_pretrained('acme/ear')", False),  # the last call
        (0, "Model.from_pretrained('acme/iris", True),  # a bracket and a string that never end
        (0, "fly(1)  # not Model.from_pretrained('acme/iris')", False),  # a comment
        (0, "other('acme/iris')", True),  # what comes first shows the right model
        (1, "load('acme/eye', size=3)", True),
        (2, "Model.from_pretrained('acme/ear')", True),
        (2, "Model.from_pretrained('acme/nose')", False),
        (3, "Model.from_pretrained('acme/nose')", True),
        (3, "Model.from_pretrained('acme/iris')", False),
        (4, "load('acme/eye', size=3)", True),
        (5, "load('acme/eye', size=3)", False),
    ],
)
def test_an_api_of_the_golds_domain_is_right(number: int, code: str, expected: bool) -> None:
    doc = make_docs("gorilla", _GOLDS)[number]
    verdict = judge("gorilla", doc, f"<<<domain>>>: Sight, <<<api_call>>>: {code}, <<<api_provider>>>: hub, more()")
    assert bool(verdict["acc"]) is expected
    assert verdict["ungraded"] == float(number == 5)


def test_a_call_of_no_api_of_the_database_is_a_hallucination() -> None:
    doc = make_docs("gorilla", _GOLDS)[0]
    verdicts = [
        judge("gorilla", doc, f"api_call: {code}") for code in ("Model.from_pretrained('acme/ear')", "fly('x')")
    ]
    assert [(verdict["acc"], verdict["hallucination"]) for verdict in verdicts] == [(0.0, 0.0), (0.0, 1.0)]


def _doc(tmp_path: Path, hub: str, call: str) -> dict[str, Any]:
    """A doc of a hub whose only API is a call."""
    path = tmp_path / f"gorilla_{hub}.jsonl"
    path.write_text(json.dumps({"domain": "Sight", "api_call": call}) + "\n", encoding="utf-8")
    return make_docs("gorilla", [["Sight"]])[0] | {"api_database": str(path)}


@pytest.mark.parametrize(("hub", "expected"), [("huggingface", True), ("tensorflowhub", True), ("torchhub", False)])
def test_an_answer_without_api_call_is_code_but_for_torch_hub(hub: str, expected: bool, tmp_path: Path) -> None:
    doc = _doc(tmp_path, hub, "Model.from_pretrained(model='acme/iris')")
    answer = "Take this:\n```python\nmodel = Model.from_pretrained('acme/iris')\n```"
    assert bool(judge("gorilla", doc, answer)["acc"]) is expected
    assert judge("gorilla", doc, answer, free=True)["acc"] == 1.0


def test_of_torch_hub_the_repository_and_the_model_count(tmp_path: Path) -> None:
    doc = _doc(tmp_path, "torchhub", "torch.hub.load(repo_or_dir='acme/v', model='m18', pretrained=True)")
    assert judge("gorilla", doc, "api_call: torch.hub.load('acme/v', 'm18', pretrained=False)")["acc"] == 1.0
    assert judge("gorilla", doc, "api_call: torch.hub.load('acme/v', 'm50')")["acc"] == 0.0


# The join

_TASK = "meta_gorilla_api_bench__torchub"


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(shared_templates(tmp_path_factory, "tools"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, templates: str) -> Path:
    return prepare(tmp_path_factory.mktemp("gorilla") / "pack", _TASK, template_dir=templates)


def test_the_database_is_a_file_of_the_pack_and_not_of_its_docs(pack: Path) -> None:
    rows = [json.loads(line) for line in (pack / "tools" / "gorilla_torchhub.jsonl").open(encoding="utf-8")]
    assert {tuple(row) for row in rows} == {("domain", "api_call")}
    manifest = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    assert "tools/gorilla_torchhub.jsonl" in manifest["files"]
    assert manifest["originals"]["gorilla_torchhub"]["id"] == "sample/originals/gorilla_torchhub"


def test_a_checkout_of_the_repository_serves_as_the_original(tmp_path: Path, templates: str) -> None:
    folder = tmp_path / "checkout" / "data" / "api"
    folder.mkdir(parents=True)
    for name, domain in (("torchhub_api", "right"), ("huggingface_api", "other")):
        entry = {"domain": domain, "api_call": "torch.hub.load(model='m')", "functionality": "left out"}
        (folder / f"{name}.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    originals = {"gorilla_torchhub": {"id": str(tmp_path / "checkout")}}
    prepare(tmp_path / "pack", _TASK, template_dir=templates, originals=originals)
    table = (tmp_path / "pack" / "tools" / "gorilla_torchhub.jsonl").read_text(encoding="utf-8")
    assert json.loads(table) == {"domain": "right", "api_call": "torch.hub.load(model='m')"}


def test_without_a_database_nothing_is_prepared(tmp_path: Path, templates: str) -> None:
    other = tmp_path / "other" / "huggingface_api.jsonl"
    other.parent.mkdir()
    other.write_text('{"a": 1}\n', encoding="utf-8")
    for place, error, message in (
        (other.parent, SourceError, "torchhub_api"), (other, DataError, "should hold domain, api_call"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            prepare(
                tmp_path / "pack", _TASK, template_dir=templates, originals={"gorilla_torchhub": {"id": str(place)}}
            )
    assert not (tmp_path / "pack").exists()


def test_a_pack_without_its_database_stops_before_anything_is_generated(pack: Path, tmp_path: Path) -> None:
    from lm_eval.tasks import TaskManager

    without = Path(shutil.copytree(pack, tmp_path / "pack"))
    (without / "tools" / "gorilla_torchhub.jsonl").unlink()
    with pytest.raises(ValueError, match="gorilla_torchhub.jsonl is missing"):
        TaskManager(include_path=str(without), include_defaults=False).load_task_or_group([_TASK])
