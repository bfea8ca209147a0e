"""publish and prepare --from: the same bytes for whoever has the rows, no row for anybody else, no code of a stranger."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packs import prepare, some_templates
from places import TEMPLATES

from meta_eval import prepare as make_pack
from meta_eval.config import CONFIG_OBJECT, load_config
from meta_eval.messages.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.meta_pack import assemble_pack
from meta_eval.pack.publication import PUBLICATION
from meta_eval.pack.publishing import publish_pack

# A choice, a join, a grader with modules of its own, and docs with data beside them.
TASKS = "meta_mmlu_pretrain,meta_ifeval,meta_math_hard,meta_gorilla_api_bench__huggingface"
MINE = ("model_name=my/model", "max_model_len=262144")
CONFIG = load_config(None, [*MINE, "evals_dataset=sample", f"tasks={TASKS}", f"template_dir={TEMPLATES}"])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a pack was prepared and published."""
    home = tmp_path_factory.mktemp("home")
    settings = {"model_name": "my/model", "evals_dataset": "sample", "tasks": TASKS, "work_dir": "./work_dir"}
    (home / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    assert cli("prepare", cwd=home).returncode == 0
    done = cli("export", "--to", "recipe", "--dry-run", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert (output["folder"], output["publication"]["evals_dataset"]) == ("published", "sample")
    assert all(name in done.stderr for name in files_of(home / "published"))
    return home


def test_the_former_verb_writes_the_same_files(home: Path, tmp_path: Path) -> None:
    done = cli("publish", home / "work_dir", "--dry-run", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["folder"]) == (0, "published")
    assert done.stderr.startswith("note: `meta-eval publish` is now `meta-eval export --to recipe`\n")
    assert files_of(tmp_path / "published") == files_of(home / "published")


def test_whoever_has_the_rows_makes_the_same_bytes(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "published", tmp_path / "fetched")
    done = cli("prepare", "--from", "fetched", "--set", "model_name=my/model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is identical to the published file" in done.stderr
    made, published = files_of(tmp_path / "work_dir"), files_of(home / "work_dir")
    assert made.keys() == published.keys()
    assert [name for name in made if made[name] != published[name] and not name.startswith((".", "manifest"))] == []


def test_model_engine_and_folders_are_the_readers(home: Path, tmp_path: Path) -> None:
    mine = {
        "model_name": "tiny", "evals_dataset": "mine", "tasks": "mine", "work_dir": "mine", "output_path": "results",
        "backend": "hf", "template_dir": "nowhere", "model_args": {"trust_remote_code": False},
    }  # fmt: skip
    (tmp_path / "eval_config.yaml").write_text(json.dumps(mine), encoding="utf-8")
    done = cli("prepare", "--from", home / "published", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    theirs, ours = read_manifest(home / "work_dir"), read_manifest(tmp_path / "mine")
    assert (ours.files, ours.groups, ours.run_settings.tasks) == (
        theirs.files,
        theirs.groups,
        theirs.run_settings.tasks,
    )
    assert (ours.run_settings.model_name, ours.run_settings.backend, ours.run_settings.include_path) == (
        "tiny",
        "hf",
        "mine",
    )
    assert {key: entry.reference_scores for key, entry in ours.tasks.items()} == {
        key: entry.reference_scores for key, entry in theirs.tasks.items()
    }


def test_no_text_of_a_row_is_published(home: Path) -> None:
    published = b"\n".join(files_of(home / "published").values()).decode()
    seen = 0
    for path in (home / "work_dir").glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            for column in ("question", "prompt", "recorded_output"):
                text = row.get(column) or ""
                # The start, the middle and the end of each text; a single word stands in many a file.
                for piece in (text[:60], text[len(text) // 2 :][:60], text[-60:]):
                    if len(piece) >= 40 and "start_header_id" not in piece:
                        seen += 1
                        assert piece not in published, (path.name, column)
                        assert json.dumps(piece)[1:-1] not in published, (path.name, column)
    assert seen > 100
    assert not any(name.endswith((".parquet", ".jsonl")) for name in files_of(home / "published"))


def test_publishing_twice_gives_the_same_files(home: Path) -> None:
    before = files_of(home / "published")
    publish_pack(home / "work_dir", home / "published")
    assert files_of(home / "published") == before


def test_a_clone_keeps_what_is_the_users(home: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    theirs = {".git/config": b"[remote]", "LICENSE": b"mine", "notes/today.md": b"mine", "templates/ifeval/my.py": b""}
    for name, content in theirs.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(content)
    for _ in range(2):
        done = cli("export", home / "work_dir", "--to", "recipe", "--dry-run", "-o", ".", cwd=clone)
        assert done.returncode == 0, done.stderr
        assert "kept unchanged: .git, LICENSE, notes, templates/ifeval/my.py\n" in done.stderr
    (clone / "README.md").write_bytes(b"edited")  # a page, without which the publication is as good
    for _ in range(2):
        done = cli("export", home / "work_dir", "--to", "recipe", "--dry-run", "-o", clone, cwd=tmp_path)
        assert (done.returncode, "README.md was edited" in " ".join(done.stderr.split())) == (0, True)
    assert files_of(clone).items() >= {**theirs, "README.md": b"edited"}.items()
    (clone / PUBLICATION).write_bytes(b"edited")
    before = files_of(clone)
    with pytest.raises(UserError, match=f"{PUBLICATION} would be replaced"):
        publish_pack(home / "work_dir", clone)
    assert files_of(clone) == before
    (clone / PUBLICATION).unlink()
    publish_pack(home / "work_dir", clone)
    assert files_of(clone).items() >= {**theirs, "README.md": b"edited"}.items()
    assert "README.md" not in (clone / ".meta-eval.publication.sha256").read_text()


SECRETS = {
    "model_name": "/home/alice/secret-model", "output_path": "/scratch/alice/out", "base_url": ["http://gpu17.corp:1/v1"],
    "ray_address": "ray://head.corp:10001", "price_per_hour": 31.4159, "model_args": {"lora_local_path": "/nfs/adapter"},
    "baseline": None,
}  # fmt: skip


def test_nothing_private_is_published(tmp_path: Path) -> None:
    templates = some_templates(tmp_path, "gpqa_cot")
    pack = prepare(tmp_path / "alices" / "pack", "meta_gpqa_cot", **SECRETS, template_dir=str(templates))
    publish_pack(pack, tmp_path / "published")
    text = b"".join(files_of(tmp_path / "published").values()).decode()
    private = ["alice", "corp", "31.4159", "adapter", "secret-model", str(tmp_path), "10001", "vllm"]
    assert [word for word in private if word in text] == []


def test_a_credential_in_a_template_is_not_published(tmp_path: Path) -> None:
    templates = some_templates(tmp_path, "ifeval")
    with (templates / "ifeval" / "utils.py").open("a") as file:
        file.write(f"\nTOKEN = 'hf_{'a' * 30}'\n")
    pack = prepare(tmp_path / "pack", "meta_ifeval", template_dir=str(templates))
    with pytest.raises(UserError, match="utils.py: holds a credential"):
        publish_pack(pack, tmp_path / "published")
    assert not (tmp_path / "published").exists()


# A publication is a stranger's.


@pytest.fixture
def strange(home: Path, tmp_path: Path) -> Path:
    """A publication whose every module leaves a trace where it is run, in whatever place a reader may look for one."""
    folder = shutil.copytree(home / "published", tmp_path / "strange")
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8").replace("from __future__ import annotations", "")
        path.write_text(f"open({str(tmp_path / 'trace')!r}, 'a').write(__file__)\n{text}", encoding="utf-8")
    shutil.copytree(folder / "templates", folder / "meta_template")
    theirs = {"model_name": "evil", "model_args": {"trust_remote_code": True}, "template_dir": "templates"}
    (folder / "eval_config.yaml").write_text(json.dumps({**theirs, "evals_dataset": "sample", "tasks": TASKS}))
    (folder / "manifest.json").write_text(json.dumps({"prepared_from": theirs, "run_settings": theirs}))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "link").symlink_to("../strange")
    some_templates(tmp_path / "mine", "ifeval")
    (tmp_path / "mine" / "meta_template" / "ifeval" / "more").symlink_to(folder / "templates")
    return folder


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    tree = json.loads((folder / PUBLICATION).read_text(encoding="utf-8"))
    edit(tree)
    (folder / PUBLICATION).write_text(json.dumps(tree), encoding="utf-8")


INSIDE = [
    ("strange", ["--from", "."]),
    ("strange/templates", ["--from", ".."]),
    ("strange", ["--from", "../strange", "--config", "../mine.yaml"]),
    ("mine/link", ["--from", "."]),
    ("mine", ["--template-dir", "../strange/templates"]),
    ("mine", ["--template-dir", "{}/strange/meta_template"]),
    ("mine", ["--template-dir", "meta_template/../link/templates"]),
    ("mine", ["--template-dir", "link/meta_template"]),
    ("mine", ["--template-dir", "./meta_template"]),  # in which a link leads there
    ("mine", ["--config", "../strange/eval_config.yaml"]),
    ("mine", ["--config", "link/eval_config.yaml"]),
    ("mine", ["--set", "work_dir=link/pack"]),
    ("mine", ["--set", "work_dir=../strange/work_dir"]),
    ("mine", ["--set", "output_path=../strange/out"]),
    ("mine", ["--set", "tokenizer=link/tiny"]),
    ("mine", ["--set", "model_name=../strange/tiny"]),
    ("mine", ["--set", "model_args={{lora_local_path: link/adapter}}"]),
    (".", ["--set", "model_name=strange/tiny"]),
]


@pytest.mark.parametrize(("cwd", "words"), INSIDE, ids=str)
def test_nothing_that_lies_in_a_publication_is_used(cwd: str, words: list[str], strange: Path, tmp_path: Path) -> None:
    before = files_of(tmp_path)
    if "--from" not in words:
        words = ["--from", str(strange), *words]
    mine = [word for setting in MINE for word in ("--set", setting)]
    done = cli("prepare", *mine, *(word.format(tmp_path) for word in words), cwd=tmp_path / cwd)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is inside the publication" in " ".join(done.stderr.split())
    assert files_of(tmp_path) == before
    assert not (tmp_path / "trace").exists()


def test_a_publication_is_made_anew_by_the_readers_own_templates(strange: Path, tmp_path: Path) -> None:
    """The stranger's modules, settings and manifest lie beside what is read, and none of them is."""
    make_pack(publication=strange, overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"])
    manifest = read_manifest(tmp_path / "pack")
    assert manifest.run_settings.model_args == {}
    assert "trust_remote_code" not in " ".join(manifest.command)
    assert not (tmp_path / "trace").exists()


def test_templates_that_the_reader_copied_are_run(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "published" / "templates", tmp_path / "read")
    make_pack(
        publication=home / "published",
        overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"],
        template_dir=tmp_path / "read",
    )
    (tmp_path / "read" / "ifeval" / "utils.py").open("a").write("# more\n")
    with pytest.raises(UserError, match=r"differ from the published ones: files\.ifeval/utils\.py"):
        make_pack(
            publication=home / "published",
            overrides=[*MINE, f"work_dir={tmp_path / 'two'}"],
            template_dir=tmp_path / "read",
        )
    assert not (tmp_path / "two").exists()


def test_a_task_that_the_reader_does_not_have_is_named(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    change(folder, lambda tree: tree["contents"].update(my_task=tree["contents"]["meta_ifeval"]))
    with pytest.raises(UserError, match=r"no task my_task.*name that with --template-dir"):
        make_pack(publication=folder, overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"])


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "contents.meta_ifeval.reference_scores.0.value": lambda tree: tree["contents"]["meta_ifeval"]["reference_scores"][0].update(value=99.0),
    "contents.meta_ifeval.min_agreement": lambda tree: tree["contents"]["meta_ifeval"].update(min_agreement=0.0),
    "contents.meta_ifeval.docs": lambda tree: tree["contents"]["meta_ifeval"].update(docs=1),
    "contents.meta_ifeval.unsafe_code": lambda tree: tree["contents"]["meta_ifeval"].update(unsafe_code=True),
    "contents.meta_ifeval.more": lambda tree: tree["contents"]["meta_ifeval"].update(more=1),
    "contents.meta_ifeval.primary_metric": lambda tree: tree["contents"]["meta_ifeval"].pop("primary_metric"),
    "files.joined_ifeval.parquet.sha256": lambda tree: tree["files"]["joined_ifeval.parquet"].update(sha256="0" * 64),
    "files.sitecustomize.py": lambda tree: tree["files"].update({"sitecustomize.py": {"sha256": "0" * 64, "bytes": 1}}),
    "groups.meta_ifeval": lambda tree: tree["groups"].update(meta_ifeval=["meta_ifeval"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def assembled() -> Callable[..., object]:
    """What makes a pack, once: all of them here are of the same rows and templates."""
    return functools.cache(lambda *_: assemble_pack(CONFIG, CONFIG_OBJECT))


@pytest.mark.parametrize("key", CHANGES)
def test_what_differs_is_named_by_its_key_and_nothing_is_written(
    key: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assembled: Callable[..., object]
) -> None:
    monkeypatch.setattr("meta_eval.pack.pack_rebuild.assemble_pack", lambda *_: assembled())
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    change(folder, CHANGES[key])
    with pytest.raises(UserError, match="these files differ from the published ones") as error:
        make_pack(publication=folder, overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"])
    assert key in str(error.value)
    assert not (tmp_path / "pack").exists()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_no_value_in_any_place_of_a_publication_passes_for_what_was_made(
    home: Path, assembled: Callable[..., object], data: st.DataObject
) -> None:
    tree = node = json.loads((home / "published" / PUBLICATION).read_text(encoding="utf-8"))
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], (dict, list)) or not node[key] or data.draw(st.integers(0, 3)) == 0:
            break
        node = node[key]
    before, node[key] = node[key], data.draw(anything)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("meta_eval.pack.pack_rebuild.assemble_pack", lambda *_: assembled())
        (Path(folder) / PUBLICATION).write_text(json.dumps(tree), encoding="utf-8")
        if key in ("format", "meta_eval") or (node[key] == before and type(node[key]) is type(before)):
            return
        with pytest.raises(UserError) as error:
            make_pack(publication=Path(folder), overrides=[*MINE, f"work_dir={folder}-pack"])
        assert "\n" not in str(error.value)
        assert not Path(f"{folder}-pack").exists()


REFUSED: dict[str, Callable[[dict[str, Any]], object]] = {
    "model_args": lambda tree: tree.update(model_args={"trust_remote_code": True}),
    "template_dir": lambda tree: tree.update(template_dir="templates"),
    "include_path": lambda tree: tree.update(run={"include_path": "/home/reader/.ssh"}),
    "evals_dataset": lambda tree: tree.update(evals_dataset="./strange/rows"),
    "evals_dataset, absolute": lambda tree: tree.update(evals_dataset="/strange/rows"),
    "evals_dataset, two up": lambda tree: tree.update(evals_dataset="../rows"),
    "evals_revision": lambda tree: tree.update(evals_revision="main"),
    "originals": lambda tree: tree.update(originals={"ifeval": {"id": "/etc/passwd", "revision": "0" * 40}}),
    "files": lambda tree: tree["files"].update({"../../x": {"sha256": "0" * 64, "bytes": 1}}),
    "tasks": lambda tree: tree.update(tasks=["--output_path=/"]),
    "meta_eval": lambda tree: tree.update(meta_eval="\x1b[2J"),
    "deep": lambda tree: tree["contents"]["meta_ifeval"].update(more=json.loads("[" * 300 + "]" * 300)),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_a_publication_does_not_say_is_refused(key: str, home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    change(folder, REFUSED[key])
    with pytest.raises(UserError, match=PUBLICATION) as error:
        make_pack(publication=folder, overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"])
    assert "\n" not in str(error.value)
    assert not (tmp_path / "pack").exists()


def test_a_folder_is_never_read_in_the_place_of_a_dataset(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    change(folder, lambda tree: tree.update(evals_dataset="meta-llama/Some-evals", evals_revision="0" * 40))
    (tmp_path / "meta-llama" / "Some-evals").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="would be read instead of the hub dataset"):
        make_pack(publication=folder, overrides=MINE)


def test_ground_truth_from_elsewhere_is_said(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    change(folder, lambda tree: tree.update(originals={"ifeval": {"id": "somebody/ifeval", "revision": "0" * 40}}))
    with pytest.raises(UserError):
        make_pack(publication=folder, overrides=[*MINE, f"work_dir={tmp_path / 'pack'}"])
    assert "reads the ground truth of ifeval from somebody/ifeval instead of the default" in caplog.text


def test_programs_that_a_model_writes_need_the_readers_word(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "pack", "meta_human_eval")
    publish_pack(pack, tmp_path / "published")
    with pytest.raises(UserError, match="add --set allow_code=true"):
        make_pack(publication=tmp_path / "published", overrides=[*MINE, f"work_dir={tmp_path / 'two'}"])
    allowed = [*MINE, f"work_dir={tmp_path / 'two'}", "allow_code=true"]
    assert (
        "--confirm_run_unsafe_code" in make_pack(publication=tmp_path / "published", overrides=allowed).manifest.command
    )


def test_without_access_to_the_rows_it_is_one_message(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "published", tmp_path / "fetched")
    name = "meta-llama/Llama-3.1-8B-Instruct-evals"
    change(folder, lambda tree: tree.update(evals_dataset=name, evals_revision="0" * 40))
    done = cli("prepare", "--from", folder, *(word for setting in MINE for word in ("--set", setting)), cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert name in done.stderr
    assert not (tmp_path / "work_dir").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "work_dir", "--to", "recipe"], "Add --dry-run"),
        (["prepare", "--from", "work_dir", "--set", "model_name=m"], "is not a publication"),
        (["prepare", "--from", "published", "--set", "tasks=x"], "a different value would make a different pack"),
        (
            ["prepare", "--from", "published", "--set", "originals.math.id=x"],
            "a different value would make a different pack",
        ),
        (["prepare", "--from", "published", "--set", "template_dir=x"], "Use --template-dir"),
        (["prepare", "--from", "published", "--config", "nothing"], "cannot be read"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], message: str, home: Path) -> None:
    done = cli(*words, cwd=home)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_rows_of_this_machine_cannot_be_made_anew_by_others(tmp_path: Path, evals_folder: Path) -> None:
    pack = prepare(tmp_path / "pack", "meta_gpqa_cot", evals_dataset=str(evals_folder), template_dir=str(TEMPLATES))
    with pytest.raises(UserError, match="a local folder"):
        publish_pack(pack, tmp_path / "published")
