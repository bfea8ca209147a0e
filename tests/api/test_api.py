"""What a program imports from meta_eval: light to load, and the same as the command line."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from noted import noted
from runs import run_lm_eval
from verb_lists import check_defaults, check_one_list

from meta_eval import Config, Manifest, compare, prepare, report, verify
from meta_eval.ask.ask_options import ExportOptions, GradingOptions, RunOptions
from meta_eval.base.errors import ConfigError, PackError, UserError
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.judge.judging_options import JudgingOptions
from meta_eval.pack.backends.base import load_class
from meta_eval.pack.pack_options import InitOptions, PrepareOptions, VerifyOptions
from meta_eval.plugins.meta.tasks_options import ListOptions, NewTaskOptions

HEAVY = ("datasets", "huggingface_hub", "lm_eval", "numpy", "pandas", "pyarrow", "pydantic", "rich", "torch")


def test_importing_it_loads_nothing_heavy() -> None:
    code = f"import sys, meta_eval; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_package_takes_the_place_of_a_function() -> None:
    import meta_eval.reports.report

    assert (meta_eval.verify, meta_eval.report) == (verify, report)
    assert {"compare", "prepare", "report", "verify", "Config", "Manifest"} <= set(dir(meta_eval))
    with pytest.raises(AttributeError, match="no attribute 'verfy'"):
        meta_eval.verfy  # noqa: B018


@pytest.mark.plugin("meta")
def test_from_a_configuration_to_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []

    def progress(what: str, done: int = 0, total: int = 0, /) -> None:
        seen.append(what)

    with noted() as notes:
        made = prepare(Config(model_name="m", evals_dataset="sample", tasks=("meta_gpqa",)), progress=progress)
    assert isinstance(made.manifest, Manifest)
    assert notes
    assert "meta_gpqa: reading sample, subset gpqa" in seen

    proof = verify("work_dir", min_agreement=0.5, progress=progress)
    assert (proof.passed, list(proof.tasks)) == (True, ["meta_gpqa"])
    assert "meta_gpqa" in seen

    run_lm_eval(Path("work_dir"), ["meta_gpqa"], Path("out"))
    judged = report("out", pack="work_dir")
    assert [task.name for task in judged.tasks] == ["meta_gpqa"]
    assert compare("out", "out", pack="work_dir").document_type == "compare"

    options = JudgingOptions(pack="work_dir", margin=3.0)
    whole, single = report("out", options=options), report("out", pack="work_dir", margin=3.0)
    assert whole.to_json() == single.to_json() != judged.to_json()
    assert report("out", options=options, margin=5.0).to_json() == report("out", pack="work_dir", margin=5.0).to_json()


# By verb its options, and what only its command line has.
VERBS: dict[str, tuple[type, str]] = {
    "prepare": (PrepareOptions, "config plan flips sampled_flips gate as_json"),
    "init": (InitOptions, "directory"),
    "doctor": (EngineOptions, "pack config engine show_command as_json"),
    "verify": (VerifyOptions, "pack config as_json"),
    "run": (RunOptions, "pack config overrides report html as_json"),
    "export": (ExportOptions, "pack config output as_json"),
    "grade": (GradingOptions, "answers pack config as_json"),
    "report": (JudgingOptions, "results max_drop html markdown eval_results view as_json"),
    "compare": (JudgingOptions, "runs max_drop html markdown view as_json texts tokens"),
}
if find_spec("meta_eval.plugins.engines"):
    VERBS["slurm"] = load_class("meta_eval.plugins.engines.slurm.slurm_jobs:Jobs"), "config output as_json"
if find_spec("meta_eval.plugins.meta"):
    VERBS["tasks"] = VERBS["tasks list"] = (ListOptions, "as_json")
    VERBS["tasks show"] = (ListOptions, "name")
    VERBS["tasks new"] = (NewTaskOptions, "name")


@pytest.mark.parametrize("verb", VERBS)
def test_command_line_and_options_are_one_list(verb: str) -> None:
    check_one_list(verb, *VERBS[verb])


@pytest.mark.parametrize("verb", VERBS)
def test_a_default_stands_once(verb: str) -> None:
    check_defaults(verb, VERBS[verb][0])


@pytest.mark.plugin("meta")
def test_prepare_takes_overrides_for_a_configuration_made_in_python(tmp_path: Path) -> None:
    config = Config(model_name="my/model", evals_dataset="sample", tasks=("meta_gpqa",), work_dir=str(tmp_path / "a"))
    pack = prepare(config, overrides=["tasks=meta_boolq", f"work_dir={tmp_path / 'b'}"])
    assert (list(pack.manifest.tasks), pack.work_dir) == (["meta_boolq"], str(tmp_path / "b"))
    with pytest.raises(UserError, match=r"^--set tasks=\[\]: "):
        prepare(config, overrides=["tasks=[]"])


def test_no_keyword_is_passed_over() -> None:
    with pytest.raises(TypeError, match="marginn"):
        report("out", marginn=1.0)  # type: ignore[call-arg]


def test_a_nul_in_options_is_refused() -> None:
    with pytest.raises(UserError, match="holds a NUL"):
        report("out", options=JudgingOptions(pack="a\0b"))


@pytest.mark.plugin("meta")
def test_a_file_says_the_same_as_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("model_name: m\nevals_dataset: sample\ntasks: meta_gpq\n")
    with pytest.raises(UserError, match=r"mine\.yaml:\d+: tasks: unknown task or group 'meta_gpq'"):
        prepare("mine.yaml")


@pytest.mark.parametrize("margin", [0, -1.0, 100, float("nan")])
def test_a_margin_is_checked_as_the_commands_is(margin: float) -> None:
    with pytest.raises(UserError, match="margin: .* is not a number of points above 0 and below 100"):
        report("out", margin=margin)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_is_checked_as_the_commands_is(share: float) -> None:
    with pytest.raises(UserError, match="--min-agreement: .* is not a share from 0 to 1"):
        verify("work_dir", min_agreement=share)


WHOLE = {"model_name": "m", "evals_dataset": "sample", "tasks": ("meta_gpqa",)}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"limit": -5}, "Config: limit: -5 is not allowed. Allowed: null for all docs"),
        ({"limt": 5}, "Config: limt: there is no such key; did you mean 'limit'? All keys: "),
        pytest.param(
            {"originals": {"math": {"ids": "x"}}},
            "Config: originals.math.ids: there is no such key; did you mean 'id'?",
            marks=pytest.mark.plugin("meta"),
        ),
        ({"model_args": {"token": "s3cret-s3cret"}}, "is a credential"),
        ({"base_url": "https://me:s3cret-s3cret@host/v1"}, "holds a credential"),
        ({"tasks": 5}, "Config: tasks: 5 is not allowed. Allowed: a comma list"),
    ],
)
def test_what_a_program_says_wrong_is_told_as_what_a_file_does(keys: dict[str, Any], words: str) -> None:
    for build in (lambda: Config(**{**WHOLE, **keys}), lambda: Config.model_validate({**WHOLE, **keys}),
                  lambda: Config.model_validate_json(json.dumps({**WHOLE, **keys})),
                  lambda: Config(**WHOLE).model_copy(update=keys)):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            build()
        assert words in str(caught.value)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("keys", [{"schema_version": True}, {"tasks": {"a/b": {}}}, {"run": {"limit": -1}}, {"x": 1}])
def test_a_manifest_that_a_program_builds_wrong_is_no_pack(keys: dict[str, Any]) -> None:
    for build in (lambda: Manifest(**keys), lambda: Manifest.model_validate_json(json.dumps(keys), strict=True)):
        with pytest.raises(PackError, match="Manifest: "):
            build()


def test_a_copy_of_a_configuration_is_one() -> None:
    config = Config(**WHOLE)
    assert config.model_copy(update={"limit": 3}) == Config(**WHOLE, limit=3)
    assert config.model_copy() == pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
