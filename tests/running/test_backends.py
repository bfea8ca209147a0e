"""The socket for backends: one of another package is configured, prepared, asked and refused like those that are shipped."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest
from command import cli
from generate_server import generate_server
from offered import offer, withhold
from places import REPOSITORY
from shared import once, shared_templates

from meta_eval.ask.client import Client, describe_start
from meta_eval.base import extensions
from meta_eval.base.errors import ConfigError
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.doctor.known_answers import find_model_folder, make_settings
from meta_eval.pack.backends import registry
from meta_eval.pack.backends.server import PROGRAMS, ServerProgram, find_program
from meta_eval.pack.config import Config, load_config
from meta_eval.pack.manifest import read_manifest

TEXTS, CHOICES = "meta_mmlu_pro_instruct", "meta_mmlu_pretrain"
# The keys of every configuration.
CONFIG: dict[str, Any] = {
    "model_name": str(find_model_folder()), "evals_dataset": "sample", "backend": "function",
    "model_args": {"function": "own:answer"}, "max_model_len": 262144,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def templates(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder with what the two tasks need, which `go` names."""
    CONFIG["template_dir"] = str(shared_templates(tmp_path_factory, "mmlu", "mmlu_pro"))


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    result = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(result)
    return result


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, as if a package had it with an entry point, and a function to call."""
    result = load_example("function_backend")

    class Point(EntryPoint):
        def load(self) -> Any:
            return getattr(result, self.attr)

    points = [
        Point("function", "function_backend:FunctionBackend", registry.BACKENDS_GROUP),
        Point("other", "function_backend:FunctionBackend", registry.BACKENDS_GROUP),
        Point("gone", "function_backend:Gone", registry.BACKENDS_GROUP),
    ]
    read = extensions.entry_points
    monkeypatch.setattr(
        extensions, "entry_points",
        lambda group: [*read(group=group), *(points if group == registry.BACKENDS_GROUP else ())],
    )  # fmt: skip
    monkeypatch.setattr(extensions, "_LOADED", {})
    own = ModuleType("own")
    own.answer = lambda _prompt, _stop, _max_tokens: "The best answer is A."  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own", own)
    return result


def go(verb: str, place: Path, *arguments: str, tasks: str = f"{TEXTS},{CHOICES}") -> CompletedProcess[str]:
    (place / "eval_config.yaml").write_text(json.dumps({**CONFIG, "tasks": tasks}), encoding="utf-8")
    return cli(verb, *arguments, cwd=place)


@pytest.fixture
def packed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Puts the pack of these words and tasks into the folder. It is prepared once for all tests."""

    def put(*words: str, tasks: str = TEXTS) -> None:
        def make(folder: Path) -> None:
            assert go("prepare", folder, *words, tasks=tasks).returncode == 0

        name = f"of_{'generate' if words else 'function'}_{tasks}"
        shutil.copytree(once(tmp_path_factory, name, make) / "work_dir", tmp_path / "work_dir")

    return put


GENERATE = ("--set", "backend=generate", "--set", "model_args={}")


@pytest.mark.plugin("meta")
@pytest.mark.usefixtures("module")
def test_a_backend_of_another_package_runs_a_pack_and_leaves_out_what_it_cannot_answer(tmp_path: Path) -> None:
    done = go("run", tmp_path, "--no-canary", "--no-report", "--json")
    output = json.loads(done.stdout)
    assert done.returncode == 1, "a task is missing"
    assert output["engine"] == "own:answer"
    assert output["left_out"] == {CHOICES: "backend function does not say how likely choices are"}
    assert list(output["tasks"]) == [TEXTS] and output["failed"] == 0
    again = json.loads(go("run", tmp_path, "--no-canary", "--no-report", "--json").stdout)
    assert (again["asked"], again["tasks"]) == (0, output["tasks"])


@pytest.mark.plugin("meta")
@pytest.mark.usefixtures("module")
def test_where_it_can_answer_nothing_it_is_refused_before_anything_is_asked(
    packed: Callable[..., None], tmp_path: Path
) -> None:
    packed(tasks=CHOICES)
    done = go("run", tmp_path, "--no-report", tasks=CHOICES)
    assert done.returncode == 2
    assert "does not say how likely choices are" in " ".join(done.stderr.split())


@pytest.mark.plugin("tokens")
@pytest.mark.usefixtures("module")
def test_where_it_can_score_nothing_it_is_refused_before_anything_is_asked(
    packed: Callable[..., None], tmp_path: Path
) -> None:
    packed(tasks=CHOICES)
    done = go("fidelity", tmp_path, "work_dir")
    assert done.returncode == 2
    assert "backend function does not say how likely choices are" in " ".join(done.stderr.split())


@pytest.mark.plugin("meta")
def test_servers_of_other_words_have_the_lanes_and_retries_of_the_shipped_ones(
    packed: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, registry.BACKENDS_GROUP, generate=load_example("generate_backend").GenerateBackend())
    packed(*GENERATE)
    monkeypatch.setattr("meta_eval.ask.servers_client.draw_backoff", lambda *_numbers, **_most: 0.0)
    with generate_server(fails_each=4) as (server, first), generate_server(fails_each=50) as (two, second):
        words = [*GENERATE, "--set", f"base_url={server},{two}", "--set", "concurrency=2"]
        done = go("run", tmp_path, "--no-canary", "--no-report", "--json", *words, tasks=TEXTS)
    output = json.loads(done.stdout)
    assert (done.returncode, output["failed"], output["engine"]) == (0, 0, "generate 1.0")
    assert first.count(500) and second, "one failed and was asked again, and both were asked"
    assert output["asked"] == (first + second).count(200), "each answer once"


@pytest.mark.plugin("meta")
@pytest.mark.parametrize("others", [0, 1])
def test_an_address_of_another_kind_of_server_is_one_message(
    packed: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    offer(monkeypatch, registry.BACKENDS_GROUP, generate=load_example("generate_backend").GenerateBackend())
    packed(*GENERATE)
    with (
        generate_server(fails_each=50, about=b"<!doctype html><p>Welcome") as (page, asked),
        generate_server(fails_each=50) as (server, _),
    ):
        urls = ",".join([page, *[server] * others])
        words = [*GENERATE, "--set", f"base_url={urls}"]
        done = go("run", tmp_path, "--no-canary", "--no-report", *words, tasks=TEXTS)
    assert (done.returncode, asked) == (2, [])
    said = " ".join(done.stderr.split())
    assert f"{page}: is not the kind of server that backend generate asks: a response that is an HTML page" in said


@pytest.mark.plugin("meta")
def test_a_page_of_a_server_that_is_starting_again_is_waited_out(
    packed: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, registry.BACKENDS_GROUP, generate=load_example("generate_backend").GenerateBackend())
    packed(*GENERATE)
    monkeypatch.setattr("meta_eval.ask.servers_client.draw_backoff", lambda *_numbers, **_most: 0.0)
    with generate_server(fails_each=99, cuts=3) as (server, statuses):
        words = [*GENERATE, "--set", f"base_url={server}"]
        done = go("run", tmp_path, "--no-canary", "--no-report", "--json", *words, tasks=TEXTS)
    assert (done.returncode, json.loads(done.stdout)["failed"]) == (0, 0), done.stderr
    assert statuses.count(0) == 1
    assert "an HTML page, not JSON): waiting for it" in " ".join(done.stderr.split())


@pytest.mark.plugin("meta")
def test_a_backend_whose_server_nobody_starts_names_no_command_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, registry.BACKENDS_GROUP, generate=load_example("generate_backend").GenerateBackend())
    done = go("run", tmp_path, *GENERATE, tasks=TEXTS)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "base_url: is not set. Start a server and name its address" in said


@pytest.mark.usefixtures("module")
def test_doctor_checks_what_it_says_it_can_answer() -> None:
    done = cli("doctor", "--backend", "function", "--model-args", "function=own:answer", "--json")
    checks = {check["name"]: check["passed"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1, "the answers are not those of the shipped model"
    assert checks["every request answered"] and checks["answers known by heart"] is False
    assert "likelihoods" not in checks


@pytest.mark.plugin("meta")
@pytest.mark.usefixtures("module")
def test_without_a_command_of_lm_eval_prepare_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.doctor.lm_eval_probe.find_lm_eval", lambda: None)  # it would import for a second
    done = go("prepare", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "lm_eval cannot call a function" in " ".join(done.stderr.split())
    assert read_manifest(tmp_path / "work_dir").command == ()
    assert go("doctor", tmp_path, "work_dir").returncode == 0


@pytest.mark.plugin("meta")
@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("functoin", r"did you mean 'function'.*Allowed: server, .* more"),
        ("other", r"'other' \(function_backend:FunctionBackend\) defines the backend 'function'"),
        ("gone", r"'gone': function_backend:Gone: cannot be loaded: AttributeError"),
    ],
)
def test_a_name_that_no_package_answers_to_is_one_message(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(None, [f"backend={name}", "model_name=m", "evals_dataset=sample", "tasks=meta_gpqa"])


def test_without_the_package_the_name_is_unknown() -> None:
    with pytest.raises(ConfigError, match="unknown backend 'function'"):
        Config(model_name="m", evals_dataset="sample", tasks=("meta_gpqa",), backend="function")


def test_every_shipped_backend_says_what_it_answers_and_has_a_client() -> None:
    for backend in registry.list_shipped():
        assert backend.kinds <= {"generate", "chat", "choices", "force"}
        assert issubclass(backend.load_client(), Client)
        assert backend.install or not backend.imports, "what it needs can be installed"


@pytest.mark.plugin("meta")
def test_a_fault_of_a_backend_names_it_and_its_package(
    module: ModuleType, packed: Callable[..., None], tmp_path: Path
) -> None:
    packed()
    sys.modules["own"].answer = lambda *_: 1 / 0  # type: ignore[attr-defined]
    done = go("run", tmp_path, "--no-canary", tasks=TEXTS)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "error: function_backend:FunctionBackend: failed with ZeroDivisionError: division by zero (function_backend.py,"
    )
    assert "a bug of meta-eval" not in done.stderr


@pytest.mark.plugin("meta")
def test_a_backend_that_starts_nothing_has_no_log(
    module: ModuleType, packed: Callable[..., None], tmp_path: Path
) -> None:
    packed()
    done = go("run", tmp_path, "--no-canary", "--no-report", tasks=TEXTS)
    assert "connecting to function\n" in done.stderr
    assert "starting" not in done.stderr
    for name, serve, starts in (("server", False, False), ("server", True, True), ("vllm", False, True)):
        settings = make_settings(EngineOptions(backend=name)).model_copy(update={"serve": serve})
        assert ("its log" in describe_start(settings, tmp_path)) == starts


LAZY = """
import sys
from meta_eval.pack.backends.registry import find_backend, list_backends
names = list_backends()
list_engines = lambda: [
    name for name in sys.modules if name.endswith((".backend", "_backend", "_client")) and "plugins" in name
]
before = list_engines()
find_backend("server")
print(len(names) > 0, before, list_engines())
"""


def test_names_are_listed_without_an_import_and_a_configuration_imports_its_own_backend_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True)
    assert done.stdout == "True [] []\n"


def test_an_engine_whose_module_is_missing_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = EntryPoint("gone", "meta_eval.plugins.no_such_engine.backend:Gone", registry.BACKENDS_GROUP)
    read = extensions.entry_points
    monkeypatch.setattr(
        extensions, "entry_points", lambda group: [*read(group=group), *([gone] if group == gone.group else [])]
    )
    keys = ["model_name=m", "evals_dataset=sample", "tasks=meta_gpqa"]
    # An argument of nobody is looked for in every engine.
    assert load_config(None, [*keys, "backend=server", "model_args={my_own: 1}"]).model_args == {"my_own": 1}
    with pytest.raises(ConfigError, match="gone of meta_eval.backends is not there: no module") as refusal:
        load_config(None, [*keys, "backend=gone"])
    assert "\n" not in str(refusal.value)


@pytest.mark.plugin("meta")
def test_without_a_program_that_serves_serve_true_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withhold(monkeypatch, PROGRAMS)
    words = ["--set", "backend=server", "--set", "serve=true", "--set", "model_args={}"]
    done = go("run", tmp_path, "--no-canary", "--no-report", *words, tasks=TEXTS)
    assert done.returncode == 2
    assert "serve: no engine is here that `serve: true` could start" in " ".join(done.stderr.split())
    asked = go("prepare", tmp_path, "--set", "backend=server", "--set", "model_args={}", tasks=TEXTS)
    assert asked.returncode == 0
    assert "vllm serve" not in asked.stderr


def test_of_several_programs_that_serve_the_first_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Program(ServerProgram):
        args_of = "mine"
        command = short_command = start = check_installed = None  # type: ignore[assignment]

        def __init__(self, name: str) -> None:
            self.name = name

    Program.__abstractmethods__ = frozenset()
    offer(monkeypatch, PROGRAMS, only=True, a=Program("a serve"), b=Program("b serve"), c=3)
    found = find_program()
    assert found is not None and found.name == "a serve"
    assert "several programs serve models here (a serve, b serve): `serve: true` starts a serve" in caplog.text
    assert "is not a ServerProgram" in caplog.text
