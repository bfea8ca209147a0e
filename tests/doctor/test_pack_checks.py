"""doctor of a pack: each thing that can go wrong before generation is caught by the check that should, with what fixes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from command import cli
from forked import forked
from marks import thorough
from noted import noted
from packs import Doc, edit, edit_docs, look_at, prepare, punkt_data, read_docs, reseal, tree, write_docs, yaml_of
from places import TEMPLATES
from rows import make_row, write_rows
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from meta_eval.base.errors import UserError
from meta_eval.doctor.check import Finding
from meta_eval.doctor.pack_checks import check_files, check_output, check_pack, check_written_pack
from meta_eval.doctor.prompt_checks import check_prompts
from meta_eval.pack.integrity import check_unchanged as check_integrity
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.punkt import NEEDS_PUNKT

TASKS = "meta_gpqa_cot,meta_mmlu_pro_instruct,meta_math_hard,meta_ifeval,meta_mmlu_pretrain,meta_human_eval"
SPECIAL = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("sample") / "work_dir", TASKS)


@pytest.fixture
def pack(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "work_dir"))


def checks(pack: Path, name: str = "") -> list[Finding]:
    """The checks of that name, and no others than their part of doctor makes."""
    manifest = read_manifest(pack)
    parts = {
        ("files",): lambda: check_files(pack, manifest, hash_up_to=None),
        ("special tokens", "BOS", "length"): lambda: check_prompts(look_at(pack)),
        ("output", "disk"): lambda: check_output(pack, manifest),
    }
    part = next((make for names, make in parts.items() if name in names), lambda: check_pack(pack))
    return [check for check in part() if check.name.startswith(name)]


def only(result: Sequence[Finding]) -> Finding:
    assert len(result) == 1, [str(check) for check in result]
    return result[0]


def set_manifest(pack: Path, *path: str, value: Any) -> None:
    tree = json.loads((pack / "manifest.json").read_text())
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    (pack / "manifest.json").write_text(json.dumps(tree))


# All in order


@thorough
def test_a_good_pack_passes_line_by_line_and_stays_as_it_is(sample: Path, tmp_path: Path) -> None:
    """The pack is that of the configuration. The code tasks' scripts import their neighbours, which no package index has."""
    before = tree(sample)
    keys = {"model_name": "m", "evals_dataset": "sample", "tasks": "meta_instruct", "work_dir": str(sample)}
    (tmp_path / "eval_config.yaml").write_text(json.dumps(keys))
    done = forked("doctor", "--json", cwd=tmp_path)
    payload = json.loads(done.stdout)
    assert (done.returncode, payload["passed"]) == (0, True)
    statuses = {check["name"]: check["status"] for check in payload["checks"]}
    for name in ("manifest", "files", "lm_eval", "functions", "first docs", "scoring: math_verify", "scoring: langdetect",
                 "scoring: antlr", "length", "output", "disk"):  # fmt: skip
        assert statuses[name] == "passed", name
    assert statuses["special tokens"] == statuses["BOS"] == "not checked"
    assert "scoring: punkt_tab" not in statuses  # no instruction of the sample's IFEval splits text with it
    assert all(check["hint"] is None for check in payload["checks"])
    assert tree(sample) == before
    lines = done.stderr.splitlines()
    assert len(lines) == len(payload["checks"]) + 1
    for line, check in zip(lines, payload["checks"], strict=False):
        assert line.startswith(check["status"])
        assert check["what"] in line


def test_what_prepare_wrote_is_checked_by_manifest_files_and_version(pack: Path) -> None:
    assert [check.name for check in check_written_pack(pack)] == ["manifest", "files", "lm_eval"]
    assert {check.status for check in check_written_pack(pack)} == {"passed"}
    edit(yaml_of(pack, "meta_gpqa_cot"), "meta_gpqa_cot", "meta_gpqa_cut")
    assert only([check for check in check_written_pack(pack) if check.status == "failed"]).name == "files"


# Files


def test_without_a_manifest_nothing_else_is_asked(tmp_path: Path) -> None:
    check = only(list(check_pack(tmp_path)))
    assert (check.name, check.status) == ("manifest", "failed")
    assert "meta-eval prepare" in str(check.hint)
    done = cli("doctor", tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("failed      manifest: ")


def test_a_manifest_cut_off_is_caught(pack: Path) -> None:
    text = (pack / "manifest.json").read_text()
    (pack / "manifest.json").write_text(text[: len(text) // 2])
    assert only(list(check_pack(pack))).status == "failed"


@pytest.mark.parametrize("damage", ["regex", "truncated", "missing", "shuffled", "another subset"])
def test_files_that_are_not_as_prepared_are_named(damage: str, pack: Path) -> None:
    path = pack / "meta_gpqa_cot.parquet"
    if damage == "regex":
        path = yaml_of(pack, "meta_mmlu_pro_instruct")
        edit(path, "best answer is ([A-Z])", "best answer is ([A-D])")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "missing":
        path.unlink()
    elif damage == "shuffled":
        write_docs(pack, "meta_gpqa_cot", read_docs(pack, "meta_gpqa_cot")[::-1], seal=False)
    else:
        shutil.copy(pack / "meta_mmlu_pro_instruct.parquet", path)
    check = only([check for check in checks(pack, "files") if check.status == "failed"])
    assert check.what.startswith(str(path))
    assert "meta-eval prepare" in str(check.hint)


def test_a_yaml_that_is_not_of_the_pack_is_caught(pack: Path) -> None:
    (pack / "mine").mkdir()
    shutil.copy(yaml_of(pack, "meta_gpqa_cot"), pack / "mine" / "copy.yaml")
    (pack / "notes.txt").write_text("a user's own file is nobody's task")
    check = only(checks(pack, "files"))
    assert (check.status, check.hint) == ("failed", "Move it away")
    assert str(pack / "mine" / "copy.yaml") in check.what


# What lm_eval can load and score


def shadow(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Modules of these names and contents in front of the installed ones, in every Python that is started."""
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))


# In the place of nltk, whose import takes longer than all else that is asked. It has no data, and would download none.
NLTK = (
    "class data:\n    path = []\n    def find(name):\n        raise LookupError(name)\ndef download(name):\n    pass\n"
)


@pytest.fixture(scope="module")
def without_much(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """What is found, by name, where functions of the pack, its first docs and libraries that score cannot be loaded."""
    folder = tmp_path_factory.mktemp("without")
    pack = Path(shutil.copytree(sample, folder / "work_dir"))
    edit(pack / "_common" / "choices.py", "import math\n", "import math\nimport meta_eval\n")
    edit(pack / "ifeval" / "utils.py", "import math\n", "import math\nimport no_such_library\n")
    edit(pack / "math_hard" / "utils.py", "def process_results(", "def process_all(")
    edit(pack / "_common" / "rows.py", 'return doc["prompt"]', 'return doc["promt"]')
    write_docs(pack, "meta_mmlu_pro_instruct", read_docs(pack, "meta_mmlu_pro_instruct")[::-1], seal=False)
    reseal(pack)
    broken = dict.fromkeys(("langdetect", "math_verify", "antlr4"), "raise ImportError('not this version')")
    result: dict[str, list[Finding]] = {}
    with pytest.MonkeyPatch.context() as patch:
        shadow(folder / "shadow", patch, **broken, nltk=NLTK)
        for check in checks(pack):
            result.setdefault(check.name, []).append(check)
    return result


def test_a_function_that_cannot_be_imported_is_named(without_much: dict[str, list[Finding]]) -> None:
    result = [check.what for check in without_much["functions"] if check.status == "failed"]
    for yaml, message in (
        ("_choice_yaml", "No module named 'meta_eval'"),
        ("ifeval", "No module named 'no_such_library'"),
        ("_math_yaml", "has no function process_results"),
    ):
        assert any(yaml in what and message in what for what in result), (yaml, result)


def test_a_task_that_does_not_load_its_first_doc_is_named(without_much: dict[str, list[Finding]]) -> None:
    result = [check.what for check in without_much["first docs"] if check.status == "failed"]
    assert any("meta_gpqa_cot: KeyError: 'promt'" in what for what in result)
    assert any(
        "meta_mmlu_pro_instruct: ValueError" in what and "not the file that was prepared" in what for what in result
    )


def test_what_scoring_lacks_is_told_with_its_command(without_much: dict[str, list[Finding]]) -> None:
    result = {name: only(some) for name, some in without_much.items() if name.startswith("scoring: ")}
    for name, command in (
        ("scoring: langdetect", '-m pip install "lm-eval[ifeval]"'),
        ("scoring: math_verify", '-m pip install "lm-eval[math]"'),
        ("scoring: antlr", '-m pip install "antlr4-python3-runtime==4.11.*"'),
    ):
        assert result[name].status == "failed", name
        assert command in str(result[name].hint)
    assert result["scoring: sympy"].status == "passed"


def ifeval_pack(tmp_path: Path, instruction: str) -> Path:
    question = json.dumps({"dialog": [{"source": "user", "body": "Write three sentences."}]})
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(evals / "ifeval__strict.jsonl", [make_row(question)])
    kwargs = {"num_sentences": 3, "relation": "at least"} if instruction.endswith("sentences") else {}
    original = {"key": 1, "prompt": "Write three sentences.", "instruction_id_list": [instruction], "kwargs": [kwargs]}
    write_rows(tmp_path / "original.jsonl", [original])
    return prepare(
        tmp_path / "work_dir", "meta_ifeval", evals_dataset=str(evals),
        originals={"ifeval": {"id": str(tmp_path / "original.jsonl")}},
    )  # fmt: skip


@pytest.fixture(scope="module")
def without_punkt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Finding], str]:
    """A pack whose instruction needs Punkt, what is found where nltk has no data, and what was done with nltk."""
    folder = tmp_path_factory.mktemp("punkt")
    pack = ifeval_pack(folder, "length_constraints:number_sentences")
    with pytest.MonkeyPatch.context() as patch:
        return pack, *traced(pack, folder, patch)


def traced(pack: Path, folder: Path, patch: pytest.MonkeyPatch) -> tuple[list[Finding], str]:
    trace = folder / "trace"
    noting = f"open({str(trace)!r}, 'a').write('%s')\n"
    download = f"def download(name):\n    {noting % 'downloaded '}"
    shadow(folder / "shadow", patch, nltk=(noting % "imported ") + NLTK + download)
    result = checks(pack)
    assert "functions" in {check.name for check in result}
    return result, trace.read_text() if trace.exists() else ""


@thorough
def test_punkt_is_asked_for_when_an_instruction_needs_it(without_punkt: tuple[Path, list[Finding], str]) -> None:
    pack, result, _ = without_punkt
    assert read_manifest(pack).includes_punkt is False
    check = only([check for check in result if check.name == "scoring: punkt_tab"])
    assert check.status == "failed"
    assert "-m nltk.downloader punkt_tab" in str(check.hint)


@pytest.mark.plugin("meta")
def test_nltk_is_imported_where_scoring_needs_it_and_downloads_nothing(
    without_punkt: tuple[Path, list[Finding], str],
) -> None:
    assert without_punkt[2] == "imported "


@thorough
def test_nltk_is_not_imported_where_scoring_does_not_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert traced(prepare(tmp_path / "work_dir", "meta_gpqa_cot"), tmp_path, monkeypatch)[1] == ""


@thorough
def test_a_pack_brings_punkt_where_the_machine_that_prepares_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = punkt_data(tmp_path / "data")
    packs = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("NLTK_DATA", str(data))
            packs.append(ifeval_pack(tmp_path / folder, "length_constraints:number_sentences"))
    tree = json.loads((packs[0] / "manifest.json").read_text())
    assert tree["includes_punkt"] is True
    assert "nltk_data/NOTICE" in tree["files"]
    assert "licence" in (packs[0] / "nltk_data" / "NOTICE").read_text()
    moved = packs[0].rename(tmp_path / "elsewhere")
    assert only(checks(moved, "scoring: punkt_tab")).status == "passed"
    names = [name for name in tree["files"] if name.startswith("nltk_data")]
    assert all((moved / name).read_bytes() == (packs[1] / name).read_bytes() for name in names)
    shutil.rmtree(moved / "nltk_data")
    assert check_integrity(moved, read_manifest(moved), edited=False) == ()
    (moved / "nltk_data").mkdir()
    with pytest.raises(UserError, match="nltk_data/NOTICE is missing"):
        check_integrity(moved, read_manifest(moved), edited=False)


@pytest.mark.plugin("meta")
def test_a_user_without_a_home_has_no_data_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert read_manifest(ifeval_pack(tmp_path, "punctuation:no_comma")).includes_punkt is False


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    ("instruction", "count"), [("punctuation:no_comma", 0), ("length_constraints:number_sentences", 1)]
)
def test_prepare_says_that_punkt_is_lacking_only_where_a_doc_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instruction: str, count: int
) -> None:
    monkeypatch.setattr("meta_eval.pack.punkt._places", lambda: iter(()))
    with noted() as notes:
        ifeval_pack(tmp_path, instruction)
    assert sum("punkt_tab is not on this machine" in note for note in notes) == count


def test_a_pack_without_ifeval_says_nothing_of_punkt(pack: Path, tmp_path: Path) -> None:
    other = prepare(tmp_path / "work_dir", "meta_gpqa")
    assert json.loads((other / "manifest.json").read_text())["includes_punkt"] is None
    assert not (other / "nltk_data").exists()


def test_both_sides_know_the_instructions_that_need_punkt() -> None:
    text = (TEMPLATES / "ifeval" / "utils.py").read_text(encoding="utf-8")
    assert f"NEEDS_PUNKT = frozenset(({', '.join(json.dumps(name) for name in sorted(NEEDS_PUNKT))}))" in text


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("0.4.3", False),
        ("0.4.11rc1", False),
        ("0.4.11", True),
        ("0.4.13.dev2", True),
        ("0.4.13+cpu", True),
        ("0.5.0rc1", False),
        ("0.5.0", False),
        ("0.4.x", False),
    ],
)
def test_the_lm_eval_on_path_must_be_of_a_supported_version(
    version: str, good: bool, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "env with a space"
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "lm_eval"
    script.write_text(f"#!/bin/sh\n'''exec' \"{folder}/bin/python\" \"$0\" \"$@\"\n' '''\n")
    script.chmod(0o755)
    metadata = folder / "lib" / "python3.12" / "site-packages" / f"lm_eval-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: lm_eval\nVersion: {version}\n")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    check = only([check for check in check_written_pack(sample) if check.name == "lm_eval"])
    assert check.status == ("passed" if good else "failed")
    assert version in check.what
    if not good:
        assert f"'{folder}/bin/python' -m pip install \"lm-eval[math,ifeval]>=0.4.11,<0.5\"" in str(check.hint)


# Prompts and tokens


def model(pack: Path, *, bos: int = 1, special: Sequence[str] = SPECIAL, letters: bool = False) -> None:
    """A local model whose tokenizer puts so many BOS in front; the pack is told that it is for it."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Split("", "isolated") if letters else pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    )
    tokenizer.add_special_tokens(list(special))
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=" ".join([SPECIAL[0]] * bos) + " $A",
            special_tokens=[(SPECIAL[0], tokenizer.token_to_id(SPECIAL[0]))],
        )
    folder = pack.parent / "model"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    set_manifest(pack, "run_settings", "model_name", value=str(folder))


def test_with_a_good_tokenizer_everything_is_checked(pack: Path) -> None:
    model(pack)
    assert only(checks(pack, "special tokens")).status == "passed"
    assert only(checks(pack, "BOS")).status == "passed"
    assert "exactly one under " in only(checks(pack, "BOS")).what


@pytest.mark.parametrize(("bos", "seen"), [(0, "0 of them"), (2, "2 of them")])
def test_a_tokenizer_that_adds_none_or_two_bos_is_caught(bos: int, seen: str, pack: Path) -> None:
    model(pack, bos=bos)
    check = only(checks(pack, "BOS"))
    assert check.status == "failed"
    assert seen in check.what


def test_a_prompt_that_brings_its_own_bos_is_caught_without_a_tokenizer(pack: Path) -> None:
    def double(docs: list[Doc]) -> None:
        docs[2]["prompt"] = SPECIAL[0] + docs[2]["prompt"]

    edit_docs(pack, "meta_gpqa_cot", double)
    check = only(checks(pack, "BOS"))
    assert check.status == "failed"
    assert "meta_gpqa_cot: the prompt of doc 2 brings <|begin_of_text|>" in check.what


def test_a_command_that_does_not_add_bos_is_caught(pack: Path) -> None:
    edit(pack / "manifest.json", "add_bos_token=True", "add_bos_token=False")
    assert only(checks(pack, "BOS")).status == "failed"


def test_special_tokens_that_are_several_to_the_model_are_caught(pack: Path) -> None:
    model(pack, special=SPECIAL[:3], letters=True)
    check = only(checks(pack, "special tokens"))
    assert check.status == "failed"
    assert check.what.startswith("<|eot_id|> is ")


@pytest.mark.plugin("meta")
def test_a_length_that_was_estimated_is_counted_once_there_is_a_tokenizer(tmp_path: Path) -> None:
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(evals / "gpqa.jsonl", [make_row("x " * 4000)])
    pack = prepare(tmp_path / "work_dir", "meta_gpqa_cot", evals_dataset=str(evals), max_model_len=6000)
    assert only(checks(pack, "length")).status == "not checked"
    model(pack, letters=True)
    check = only(checks(pack, "length"))
    assert check.status == "failed"
    assert "do not fit max_model_len 6,000" in check.what
    assert "Set max_model_len to 10" in str(check.hint)


# Where results go


def test_an_output_path_that_is_a_file_is_caught(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    set_manifest(pack, "run_settings", "output_path", value=str(tmp_path / "taken" / "here"))
    assert only(checks(pack, "output")).status == "failed"


def test_too_little_disk_is_caught(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(pack)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))  # a full disk cannot be had here
    check = only(checks(pack, "disk"))
    assert check.status == "failed"
    assert "output_path" in str(check.hint)
    set_manifest(pack, "run_settings", "log_samples", value=False)
    assert only(checks(pack, "disk")).status == "not checked"
