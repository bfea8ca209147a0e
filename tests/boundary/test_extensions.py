"""Classes of other packages: what they print is not our output, and where they fail, their package is named."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from command import cli, process
from forked import forked
from generate_server import generate_server
from places import REPOSITORY
from runs import write_run

from meta_eval import cli as command_line
from meta_eval.base import extensions

Install = Callable[[str, str, str], Path]

VIEW = """
from meta_eval.reports.views import View
class V(View):
    document_types = frozenset(("report",))
    def render(self, document): return "x"
"""
FORMAT = """
from meta_eval.pack.records.format import RecordFormat
class V(RecordFormat):
    name = "mine"
    def detect(self, place): return False
    def open_run(self, place, run, names): return None
"""
VERB = """
from meta_eval.sockets import Verb, print_result
V = Verb("mine", "Say hello.", "plug_in:hello")
def hello() -> None:
    \"\"\"Say hello.\"\"\"
    print_result("hello")
"""
BACKEND = (REPOSITORY / "examples" / "generate_backend.py").read_text(encoding="utf-8") + "V = GenerateBackend\n"


# The keys of a pack of a recorded run.
RECORD = {
    "evals_dataset": str(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13"),
    "template_dir": str(REPOSITORY / "tools/lm_eval_tasks"),
    "tasks": "tiny_free",
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package ``my-package`` of a module with the class ``V``."""
    monkeypatch.setattr(extensions, "_LOADED", {})
    monkeypatch.setattr(command_line, "_command", cache(command_line._command.__wrapped__))  # it keeps verbs
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def put(group: str, name: str, code: str) -> Path:
        facts = tmp_path / "site" / "my_package-1.0.dist-info"
        facts.mkdir(parents=True)
        (tmp_path / "site" / "plug_in.py").write_text(code, encoding="utf-8")
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[meta_eval.{group}]\n{name} = plug_in:V\n")
        monkeypatch.delitem(sys.modules, "plug_in", raising=False)
        return facts

    return put


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(tmp_path / "results", [1.0] * 60 + [0.0] * 40)
    return tmp_path


def use(socket: str, folder: Path) -> tuple[str, ...]:
    """A command that loads a class of this socket."""
    if socket == "verbs":
        return ("mine",)
    if socket == "views":
        return "report", "results", "--view", "mine=o.txt", "--json"
    settings = {"model_name": "m", "evals_dataset": "site", "tasks": "recorded"}
    settings |= {**RECORD, "backend": "generate"} if socket == "backends" else {}
    (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return ("prepare",)


ENDINGS = {
    "sys.exit": ("import sys; sys.exit(0)", "ends the program: SystemExit: 0"),
    "own": ("class E(BaseException): pass\nraise E('oh')", "ends the program: E: oh"),
    "interrupt": ("raise KeyboardInterrupt", "ends the program: KeyboardInterrupt"),
    "error": ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
    "syntax": ("def", "cannot be loaded: SyntaxError"),
    "nothing": ("V = None", "is not a "),
    "another class": ("class V: pass", "is not a "),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("socket", "code"), [("views", VIEW), ("record_formats", FORMAT), ("backends", BACKEND), ("verbs", VERB)]
)
def test_a_package_that_cannot_be_loaded_is_named(
    socket: str, code: str, ending: str, install: Install, results: Path
) -> None:
    fault, words = ENDINGS[ending]
    install(socket, "generate" if socket == "backends" else "mine", f"print('rubbish')\n{fault}\n")
    done = cli(*use(socket, results), cwd=results)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "rubbish" in done.stderr or ending == "syntax"
    said = " ".join(done.stderr.split())
    # A format is asked for by no name: it is a note, and the other formats go on.
    last = said if socket == "record_formats" else said.split("error: ")[-1]
    assert f"plug_in:V of package my-package 1.0: {words}" in last


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('frozenset(("report",))', "None", "plug_in:V of package my-package 1.0: document_types is not a frozenset"),
        (
            'return "x"',
            "return chr(0xd800)",
            "view plug_in.V: render gave a text with '\\ud800', which no file can hold",
        ),
        ('return "x"', "return ['x', 1]", "view plug_in.V: render gave int in a text"),
        ('return "x"', "import sys; sys.exit(0)", "plug_in:V of package my-package 1.0: failed with SystemExit: 0"),
        (
            'return "x"',
            "raise BaseException('oh')",
            "plug_in:V of package my-package 1.0: failed with BaseException: oh",
        ),
    ],
)
def test_a_view_of_the_wrong_form_is_named(old: str, new: str, words: str, install: Install, results: Path) -> None:
    install("views", "mine", VIEW.replace(old, new))
    done = cli(*use("views", results), cwd=results)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in " ".join(done.stderr.split())
    assert not (results / "o.txt").exists()


@pytest.mark.parametrize("facts", ["", "Version: x\n"])
def test_a_package_without_metadata_is_named_by_its_class(facts: str, install: Install, results: Path) -> None:
    (install("views", "mine", "1 / 0") / "METADATA").write_text(facts)
    done = cli(*use("views", results), cwd=results)
    assert (done.returncode, "plug_in:V" in done.stderr) == (2, True), done.stderr


@pytest.fixture
def second(install: Install, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A second package, which offers the same and some other name."""

    def put(group: str, name: str, code: str) -> Path:
        facts = install(group, name, code)
        monkeypatch.delitem(sys.modules, "other_plug_in", raising=False)
        other = facts.with_name("other_package-2.0.dist-info")
        other.mkdir()
        (facts.parent / "other_plug_in.py").write_text(code.replace('"mine"', '"other"'), encoding="utf-8")
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 2.0\n")
        points = f"[meta_eval.{group}]\n{name} = other_plug_in:V\nother = other_plug_in:V\n"
        (other / "entry_points.txt").write_text(points)
        return facts

    return put


BOTH = "is offered 2 times: other_plug_in:V of package other-package 2.0 and plug_in:V of package my-package 1.0"


@pytest.mark.parametrize(("socket", "name", "code"), [("views", "mine", VIEW), ("backends", "generate", BACKEND)])
def test_a_name_that_two_packages_offer_is_one_message(
    socket: str, name: str, code: str, second: Install, results: Path
) -> None:
    second(socket, name, f"print('imported')\n{code}")
    done = cli(*use(socket, results), cwd=results)
    said = " ".join(done.stderr.split())
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"'{name}' {BOTH}. Uninstall all of these packages but one" in said
    assert said.count("my-package") == 1 and "imported" not in said


def test_other_names_and_groups_go_on_beside_a_name_offered_twice(second: Install, results: Path) -> None:
    second("views", "mine", VIEW)
    done = cli("report", "results", "--view", "other=o.txt", "--view", "markdown=o.md", cwd=results)
    assert (done.returncode, (results / "o.txt").read_text()) == (0, "x"), done.stderr
    assert "offered" not in done.stderr


def test_a_format_that_two_packages_offer_is_a_note_and_other_formats_go_on(second: Install, results: Path) -> None:
    """The format "other" reads the place: its own fault is the error."""
    code = FORMAT.replace("return False", "return True").replace("return None", "raise ValueError('read by other')")
    second("record_formats", "mine", code)
    done = cli(*use("record_formats", results), cwd=results)
    said = " ".join(done.stderr.split())
    assert f"'mine' {BOTH}." in said and said.count("is offered 2 times") == 1
    assert done.returncode == 2 and "ValueError: read by other" in said


def test_stdout_is_ours_alone_when_a_package_prints_later(install: Install, results: Path) -> None:
    """Also what C code and programs print, in a process of its own."""
    calls = "print('rubbish'); os.system('echo waste')"
    install("views", "mine", f"import os\n{VIEW.replace('return', f'{calls}; return')}")
    done = forked(*use("views", results), cwd=results, PYTHONPATH=str(results / "site"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["document_type"] == "report"
    assert "rubbish" in done.stderr and "waste" in done.stderr


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os._exit(0)", "plug_in:V of package my-package 1.0: its code ended the program (exit code 0)"),
        (
            "os.kill(os.getpid(), 9)",
            "often because memory ran out; code of plug_in:V of package my-package 1.0 ran in it",
        ),
        ("os._exit(127)", "by the system's loader (exit code 127), perhaps because memory ran out; code of plug_in:V"),
    ],
)
def test_an_end_that_comes_later_is_no_silent_success(end: str, said: str, install: Install, results: Path) -> None:
    install("views", "mine", f"import os\n{VIEW.replace('return', f'{end}; return')}")
    done = forked(*use("views", results), cwd=results, PYTHONPATH=str(results / "site"))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("place", ["ask", "meet"])
def test_a_client_that_ends_the_program_ends_the_run(place: str, install: Install, results: Path) -> None:
    begin = {"ask": "    async def ask(self, server: GenerateConnection, request: Request) -> Answer:\n",
             "meet": "    async def meet(self) -> None:\n"}[place]  # fmt: skip
    install("backends", "generate", BACKEND.replace(begin, f"{begin}        import sys; sys.exit(0)\n"))
    use("backends", results)
    with generate_server(fails_each=99) as (server, _):
        done = cli("run", "--no-canary", "--no-report", "--set", f"base_url={server}", cwd=results)
    assert done.returncode == 2, done.stderr
    assert "plug_in:V of package my-package 1.0: failed with SystemExit: 0" in " ".join(done.stderr.split())


def test_a_verb_of_another_package_is_listed_and_run_and_leaves_stdout_to_results(
    install: Install, tmp_path: Path
) -> None:
    install("verbs", "mine", "print('rubbish')\n" + VERB)
    listed = cli("--help", cwd=tmp_path)
    assert re.search(r"^  mine +Say hello\.$", listed.stdout, re.MULTILINE)
    assert "rubbish" not in listed.stdout
    asked = cli("mine", "-h", cwd=tmp_path)
    assert "Say hello." in asked.stdout
    done = cli("mine", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_the_example_of_a_verb_counts_the_docs_of_a_pack(install: Install, tmp_path: Path) -> None:
    code = (REPOSITORY / "examples" / "docs_verb.py").read_text(encoding="utf-8").replace("docs_verb:", "plug_in:")
    install("verbs", "docs", code + "V = DOCS\n")
    settings = {"model_name": "m", **RECORD}
    (tmp_path / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    assert cli("prepare", cwd=tmp_path).returncode == 0
    done = cli("docs", "work_dir", "--json", cwd=tmp_path)
    docs = json.loads((tmp_path / "work_dir" / "manifest.json").read_text(encoding="utf-8"))["tasks"]
    assert json.loads(done.stdout) == {name: task["docs"] for name, task in docs.items()}


SET = ("--set", "model_name=m", "--set", "tasks=recorded", "--set")
SHADOWED = [
    ("views", "html", VIEW, ("report", "results", "--html", "o.html")),
    ("verbs", "report", VERB, ("--help",)),
    ("verbs", "report", VERB, ("report", "results", "--html", "o.html")),
    ("record_formats", "lm-eval", FORMAT, ("prepare", *SET, "evals_dataset=site")),
    ("backends", "server", BACKEND, ("doctor", "--backend", "none")),
    ("answer_forms", "requests", "V = None", ("export", "results", "--to", "none")),
]


@pytest.mark.parametrize(("socket", "name", "code", "command"), SHADOWED)
def test_a_name_of_the_core_stays_its_own_and_the_package_is_told(
    socket: str, name: str, code: str, command: tuple[str, ...], install: Install, results: Path
) -> None:
    install(socket, name, f"print('imported')\n{code}")
    done = cli(*command, cwd=results)
    said = " ".join(done.stderr.split())
    assert f"note: plug_in:V of package my-package 1.0: is never used as '{name}' of meta_eval.{socket}" in said
    assert said.count("is never used") == 1 and "imported" not in said


CODES = ["'x'", "4", "70", "-1", "256", "True", "False", "1.0", "[]", "10**5000", "{'a': 1}", "''", "b''", "object"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("how", ["return {}", "import typer; raise typer.Exit({})"])
def test_a_code_of_a_verb_is_one_of_ours_or_one_message(code: str, how: str, install: Install, tmp_path: Path) -> None:
    install("verbs", "mine", VERB.replace('print_result("hello")', how.format(code)))
    done = cli("mine", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("error: meta-eval mine (plug_in:hello): returned ")
    assert said.endswith("is no exit code of meta-eval. Report it to that package; allowed are 0, 1, 2, 3, 130")


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_code_of_a_verb_that_is_one_of_ours_is_the_commands(code: int, install: Install, tmp_path: Path) -> None:
    install("verbs", "mine", VERB.replace('print_result("hello")', f"return {code}"))
    assert (cli("mine", cwd=tmp_path).returncode, cli("mine", "-h", cwd=tmp_path).returncode) == (code, 0)


@pytest.mark.parametrize("socket", ["verbs", "views", "record_formats", "backends"])
def test_an_entry_point_without_its_module_is_one_message_and_stops_nothing_else(
    socket: str, install: Install, results: Path
) -> None:
    install(socket, "gone", "")
    (results / "site" / "plug_in.py").unlink()
    listed = cli("--help", cwd=results)
    assert listed.returncode == 0
    assert len(listed.stderr.splitlines()) == (socket == "verbs")
    judged = cli("compare", "results", "results", cwd=results)
    assert judged.returncode == 0, judged.stderr


THREADS = """
    import importlib.util, os
    before = len(os.listdir("/proc/self/task"))
    assert importlib.util.find_spec("numpy")
    import numpy
    between = len(os.listdir("/proc/self/task")) - before
    import scipy.special
    print_result(f"{between} more, {len(os.listdir('/proc/self/task')) - before} more, {os.environ.get('OPENBLAS_NUM_THREADS')}")
"""


# Of the two that are asked for, beside the one that is there; an OpenBLAS starts no more than there are cores.
MORE = min(2, os.cpu_count() or 1) - 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="here nothing tells how many threads there are")
@pytest.mark.parametrize(
    ("asked", "words"), [(None, "0 more, 0 more, None"), ("2", f"{MORE} more, {2 * MORE} more, 2")]
)
def test_numpy_and_scipy_have_one_thread_unless_the_user_asks_for_more(
    asked: str | None, words: str, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("verbs", "mine", VERB.replace('    print_result("hello")\n', THREADS))
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    done = process("mine", PYTHONPATH=str(tmp_path / "site"), **({"OPENBLAS_NUM_THREADS": asked} if asked else {}))
    assert (done.stdout, done.returncode) == (f"{words}\n", 0), done.stderr
