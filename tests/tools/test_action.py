"""The action: its steps run as on a runner, beside a server that answers as GitHub's API does."""

from __future__ import annotations

import html
import json
import os
import re
import runpy
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from action_runner import ACTION, run_action
from forked import FORKED_BY, python, shared
from marks import few, thorough
from places import REPOSITORY
from runs import write_run

pytestmark = pytest.mark.plugin("nightly")  # the action keeps a history

MARKER = "<!-- meta-eval gate -->"
RIGHT = [1.0] * 150 + [0.0] * 50
WORSE = [1.0] * 100 + [0.0] * 100
GATE = {"results": "same", "baseline": "base", "gate": "gate.yaml"}


def list_runs(history: Path) -> dict[str, bytes]:
    """The files of a history, one of each run."""
    return {path.name: path.read_bytes() for path in history.glob("*.json")}


class GitHub(ThreadingHTTPServer):
    """Comments of a pull request. `refuses` is a status in place of every answer, `raw` a body, `location` a redirect."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.refuses = 0
        self.raw: bytes | None = None
        self.location = ""
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        page = int(re.findall(r"&page=(\d+)", self.path)[0])
        self._answer(self.server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        bot = {"type": "Bot", "login": "github-actions[bot]"}
        self.server.comments.append({"id": 1000 + len(self.server.comments), "user": bot, **self._read()})
        self._answer({})

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        next(one for one in self.server.comments if one["id"] == number).update(self._read())
        self._answer({})

    def _read(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _answer(self, content: Any) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        body = json.dumps(content).encode() if self.server.raw is None else self.server.raw
        self.send_response(self.server.refuses or 200)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs and a gate."""
    place = tmp_path_factory.mktemp("written")
    for name, verdicts in {"base": RIGHT, "same": RIGHT, "worse": WORSE}.items():
        write_run(place / name, verdicts)
    (place / "gate.yaml").write_text("margin: 2\nbaseline_kind: run\n")
    return place


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "workspace"))


def stand_in(folder: Path, markdown: str, outcome: str = "SHIP", code: int = 0, said: str = "", html: str = "") -> str:
    """A folder with a `meta-eval` that writes this report, and this page if there is one."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, text in {"markdown": markdown, "html": html, "said": said}.items():
        (programs / name).write_bytes(text.encode())
    pages = "".join(
        f'    --{name}=*) cat "{programs}/{name}" > "${{word#*=}}" ;;\n'
        for name in ("markdown", *["html"] * bool(html))
    )
    tree = json.dumps({"decision": {"outcome": outcome}}).replace("'", "'\\''")
    program = programs / "meta-eval"
    program.write_text(
        f'#!/bin/sh\ncat "{programs}/said" >&2\nfor word; do\n  case "$word" in\n{pages}  esac\ndone\n'
        f"echo '{tree}'\nexit {code}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(programs)


def test_a_pull_request_gets_one_comment_that_is_updated(folder: Path, github: GitHub) -> None:
    other = [
        {"id": n, "user": {"type": "User"}, "body": f"{MARKER} mine", "author_association": "NONE"} for n in range(120)
    ]
    github.comments = list(other)
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n\n| task |\n|---|\n| meta_some |\n")
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs, in_bash=True)
    assert (ran.code, ran.outputs["decision"], ran.outputs["exit-code"]) == (0, "SHIP", "0")
    (comment,) = github.comments[120:]
    assert (
        comment["body"].startswith(f"{MARKER}\n## ")
        and "**SHIP**" in comment["body"]
        and "meta_some" in comment["body"]
    )
    assert "(https://github.example/me/models/actions/runs/42)" in comment["body"]
    assert "**SHIP**" in ran.summary
    assert github.tokens == {"Bearer secret-token"} and "secret-token" not in ran.log
    stand_in(folder, "## Evaluation: m\n\n**DON'T SHIP**: worse\n", "DON'T SHIP", 1)
    worse = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert (worse.code, worse.outputs["decision"]) == (1, "DON'T SHIP")
    assert [one["body"] for one in github.comments[:120]] == [one["body"] for one in other]
    assert len(github.comments) == 121 and "DON'T SHIP" in github.comments[120]["body"]


def forking(folder: Path) -> str:
    """A folder with the real `meta-eval`, forked off a Python that has imported it."""
    programs = folder / "programs"
    front = python(programs).rename(programs / "forks")
    program = programs / "meta-eval"
    program.write_text(f'#!/bin/sh\nexec "{front}" -P -m meta_eval "$@"\n')
    program.chmod(0o755)
    return str(programs)


def test_without_a_gate_the_margin_is_one_point(folder: Path, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {name: value for name, value in GATE.items() if name != "gate"}
    monkeypatch.setenv(FORKED_BY, shared())
    programs = forking(folder)
    ran = run_action({**inputs, "results": "worse"}, folder, event="push", api=github.url, path=programs, in_bash=True)
    assert (ran.code, ran.outputs["decision"]) == (1, "DON'T SHIP")


@thorough
def test_a_push_that_is_worse_fails_and_says_so_in_the_summary_alone(folder: Path, github: GitHub) -> None:
    ran = run_action({**GATE, "results": "worse"}, folder, event="push", api=github.url, in_bash=True)
    assert (ran.code, ran.outputs["decision"], ran.outputs["exit-code"]) == (1, "DON'T SHIP", "1")
    assert "**DON'T SHIP**" in ran.summary
    assert ran.artifact == ran.outputs["page"].removesuffix("/report.html")
    assert Path(ran.outputs["page"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not github.tokens


@thorough
def test_a_schedule_keeps_a_history_and_a_pull_request_does_not(folder: Path, github: GitHub) -> None:
    inputs = {**GATE, "history": "past"}
    ran = run_action(inputs, folder, event="schedule", api=github.url, in_bash=True)
    assert (ran.code, len(list_runs(folder / "past"))) == (0, 1), "too few runs are no alarm"
    assert "History" in ran.summary
    assert ran.artifact is not None and len(list_runs(Path(ran.artifact, "history"))) == 1
    run_action(inputs, folder, event="pull_request", api=github.url)
    assert len(list_runs(folder / "past")) == 1


def test_an_option_in_the_place_of_results_is_an_error(folder: Path, github: GitHub) -> None:
    ran = run_action({**GATE, "results": "--help"}, folder, event="push", api=github.url)
    assert (ran.code, ran.outputs["decision"]) == (2, "error")
    assert "--help: there is no such file or folder" in ran.summary


def test_a_command_that_ends_well_without_a_decision_is_an_error(folder: Path, github: GitHub) -> None:
    programs = stand_in(folder, "")
    Path(programs, "meta-eval").write_text("#!/bin/sh\necho 'Usage: meta-eval report'\n")
    ran = run_action(GATE, folder, event="push", api=github.url, path=programs)
    assert (ran.code, ran.outputs["decision"]) == (2, "error")


@thorough
def test_results_that_are_not_there_are_one_message(folder: Path, github: GitHub) -> None:
    ran = run_action({**GATE, "results": "nowhere"}, folder, event="pull_request", api=github.url, in_bash=True)
    assert (ran.code, ran.outputs["decision"], ran.outputs["page"]) == (2, "error", "")
    assert "nowhere" in github.comments[0]["body"] and "there is no such file or folder" in ran.summary
    assert "Traceback" not in ran.log


def test_a_token_that_may_not_write_is_a_warning(folder: Path, github: GitHub) -> None:
    github.refuses = 403
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n")
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert ran.code == 0
    assert "::warning::no comment: the token may not write here, HTTP 403" in ran.log


REPLIES = [b"", b"<html>", b"null", b"{}", b"5", b"[" * 100_000, b"\xff", b'{"message": "x"}']


@pytest.mark.parametrize("raw", few(REPLIES, 4), ids=lambda raw: raw[:9].decode(errors="replace"))
def test_what_is_no_list_of_comments_is_a_warning_and_the_gate_decides(
    raw: bytes, folder: Path, github: GitHub
) -> None:
    github.raw = raw
    programs = stand_in(folder, "## Evaluation: m\n\n**DON'T SHIP**: worse\n", "DON'T SHIP", 1)
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert (ran.code, ran.outputs["exit-code"]) == (1, "1"), ran.log
    assert "::warning::no comment: GitHub's API gave no" in ran.log and "Traceback" not in ran.log


def test_comments_that_lack_something_are_passed_over(folder: Path, github: GitHub) -> None:
    bot = {"type": "Bot"}
    github.comments = [
        {"id": 1, "user": None, "author_association": "NONE", "body": "hello"}, {"id": 2, "user": None, "body": MARKER},
        {"id": 3, "user": bot}, {"id": 4, "user": bot, "body": None}, {"id": "5", "user": bot, "body": MARKER},
        {"user": bot, "body": MARKER}, {"id": 6, "user": "me", "body": MARKER}, None, [], "x",
    ]  # fmt: skip
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n")
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert ran.code == 0 and "Traceback" not in ran.log and "::warning" not in ran.log
    assert "**SHIP**" in github.comments.pop()["body"] and len(github.comments) == 10


@pytest.mark.parametrize("status", few([301, 302, 303, 307, 308], 5))
def test_the_token_is_sent_to_nobody_else(status: int, folder: Path, github: GitHub) -> None:
    other = GitHub()
    threading.Thread(target=other.serve_forever, daemon=True).start()
    github.refuses, github.location = status, f"{other.url}/x&page=1"
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n")
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    other.shutdown()
    other.server_close()
    assert (ran.code, other.tokens) == (0, set())
    assert f"::warning::no comment: HTTP {status}. See the job summary" in ran.log


def test_no_path_of_the_runner_is_in_comment_summary_or_artifact(folder: Path, github: GitHub) -> None:
    text = f"{folder}/same, https://host:80/v1/x and/or 1/2 of path:/mnt/data/pack, file:///home/runner/it and {folder}"
    shown = "same, https://host:80/v1/x and/or 1/2 of path:…/pack, …/it and "
    kept = "<style>a{b:url(/one/two/x)}</style>\r\n<script>var x = '/one/two/x' // +/ab/cd/ef\r\n</script>"
    page = f'<!doctype html>{kept}<p title="{text}" d="/a/b/c">{text}</p></body></html>'
    markdown = f"## Evaluation: {text}\n\n**SHIP**: fine\n\n| task |\n|---|\n| x |\n\n{text}\n"
    programs = stand_in(folder, markdown, html=page)
    ran = run_action({**GATE, "history": "past"}, folder, event="pull_request", api=github.url, path=programs)
    (comment,) = github.comments
    assert f"Evaluation: {shown}\n" in comment["body"] and ran.artifact is not None
    html = Path(ran.artifact, "report.html").read_bytes().decode()
    assert html == f'<!doctype html>{kept}<p title="{shown}" d="/a/b/c">{shown}</p></body></html>'
    texts = [path.read_text(encoding="utf-8") for path in Path(ran.artifact).iterdir() if path.is_file()]
    assert len(texts) == 4
    for some in [comment["body"], ran.summary, *texts]:
        assert not [place for place in (str(folder), "/mnt/data", "/home/runner") if place in some]
    assert ran.summary.count(shown) == 2


@thorough
def test_no_path_of_a_model_is_in_real_pages(folder: Path) -> None:
    """Pages as report and history write them; the history itself stays as it is."""
    for path in folder.rglob("results_*.json"):
        tree = json.loads(path.read_text())
        tree["model_name"] = "/home/runner/models/llama"
        tree["config"]["model_args"] = "pretrained=/home/runner/models/llama"
        path.write_text(json.dumps(tree))
    given = {name: str(folder / place) for name, place in {"results": "same", "baseline": "base"}.items()}
    ran = run_action({**GATE, **given, "history": "past"}, folder, in_bash=True)
    assert ran.code == 0 and ran.artifact is not None, ran.log
    pages = [path for path in Path(ran.artifact).iterdir() if path.is_file()]
    assert {path.name for path in pages} >= {"report.html", "report.md", "report.json", "history.html", "history.md"}
    for some in [ran.summary, *(path.read_text(encoding="utf-8") for path in pages)]:
        assert "/home/runner" not in some and str(folder) not in some
    assert list_runs(Path(ran.artifact, "history")) == list_runs(folder / "past")


def test_an_error_names_no_path_of_the_runner(folder: Path, github: GitHub) -> None:
    said = f"error: {folder}/my_runs/base: cannot be read, nor /home/runner/.cache/x_y.json\n"
    programs = stand_in(folder, "", code=2, said=said)
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    (comment,) = github.comments
    assert (ran.code, ran.outputs["decision"]) == (2, "error")
    for text in (comment["body"], ran.summary):
        assert "my\\_runs/base: cannot be read, nor …/x\\_y.json" in text


def test_an_error_is_not_said_with_the_report_of_an_earlier_gate(folder: Path, github: GitHub) -> None:
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n")
    run_action(GATE, folder, event="push", api=github.url, path=programs)
    (folder / "programs" / "meta-eval").write_text("#!/bin/sh\necho 'error: nothing there' >&2\nexit 2\n")
    ran = run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert (ran.code, ran.outputs["decision"], ran.outputs["page"]) == (2, "error", "")
    assert "nothing there" in github.comments[0]["body"] and "SHIP" not in github.comments[0]["body"] + ran.summary


def test_what_a_job_wrote_is_cut_to_what_github_takes(folder: Path, github: GitHub) -> None:
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine " + "@x " * 50_000)
    run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    assert len(github.comments[0]["body"]) < 65_536 and "(more on the page)" in github.comments[0]["body"]


@pytest.mark.parametrize(("extras", "suffix"), [("", ""), ("vllm", "[vllm]")])
def test_installing_runs_nothing_of_the_checkout(extras: str, suffix: str, folder: Path) -> None:
    """Neither a module of the name venv nor of pip; what is asked for is installed."""
    for name in ("venv.py", "pip.py", "ensurepip.py", "sitecustomize.py"):
        (folder / name).write_text("open('pwned', 'w')")
    programs = folder / "programs"
    programs.mkdir()
    python = programs / "python"
    installs = f"{folder}/meta-eval/bin/python"
    python.write_text(
        f'#!/bin/sh\n"{sys.executable}" "$@" --without-pip && rm "{installs}" && printf \'#!/bin/sh\\necho "$@"\' > '
        f'"{installs}" && chmod +x "{installs}"\n'
    )
    python.chmod(0o755)
    (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Install")
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=folder, capture_output=True, text=True, check=True,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": "/the/action",
             "GITHUB_PATH": str(folder / "path"), "EXTRAS": extras, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.stdout == f"-I -m pip install --quiet /the/action{suffix}\n"
    assert not (folder / "pwned").exists()


def test_every_python_of_the_action_is_isolated() -> None:
    texts = [step.get("run", "") for step in ACTION["runs"]["steps"]]
    assert {word for text in texts for word in re.findall(r'\bpython3?"? (\S+)', text)} == {"-I"}
    assert not [text for text in texts if "bin/pip" in text]


def test_nothing_of_a_run_is_a_command_or_a_mention(folder: Path, github: GitHub) -> None:
    rows = [f"| @team{n} | 1 |" for n in range(30)]
    markdown = "\n".join(
        ["## Evaluation: @boss", "", "**SHIP**: fine", "", "| task | drop |", "|---|--:|", *rows, "", "x"]
    )
    programs = stand_in(folder, markdown, said="::set-output name=decision::SHIP\n")
    hostile = {
        **GATE, "results": "$(touch pwned)\n`touch pwned`", "gate": "; touch pwned #", "name": "../`a`\nexit-code=0",
        "run": "printf 'made %s' here > made.txt",
    }  # fmt: skip
    ran = run_action(hostile, folder, event="pull_request", api=github.url, path=programs, in_bash=True)
    assert ran.code == 0
    assert (folder / "made.txt").read_text() == "made here"
    assert not list(folder.rglob("pwned"))
    (comment,) = github.comments
    assert comment["body"].startswith("<!-- meta-eval a-exit-code-0 -->\n")
    assert not re.search(r"@\w", comment["body"])
    assert comment["body"].count("team") == 20 and "10 more rows are on the page." in comment["body"]
    stop = re.findall(r"::stop-commands::(\w{32})\n", ran.log)
    assert len(stop) == 1
    assert ran.log.index("::set-output") < ran.log.index(f"::{stop[0]}::\n")


REFERENCES = (
    "@",
    "\\@",
    "&#64;",
    "&#064;",
    "&#0000064;",
    "&#x40;",
    "&#X40;",
    "&#x000040;",
    "&commat;",
    "&#64",
    "&#x40",
    "&amp;#64;@",
)


def test_a_comment_mentions_nobody_by_a_reference_to_a_character(folder: Path, github: GitHub) -> None:
    """Markdown and HTML make @ of references; HTML takes some without a semicolon, and with any number of zeros."""
    said = "".join(f"{at}team <b>{at}team/one</b> <div>\n{at}user\n</div>\n" for at in REFERENCES)
    programs = stand_in(folder, f"## Evaluation: m\n\n**SHIP**: R&D &lt;fine&gt;\n{said}\n")
    run_action(GATE, folder, event="pull_request", api=github.url, path=programs)
    (comment,) = github.comments
    assert "R&D &lt;fine&gt;" in comment["body"] and comment["body"].count("user") == len(REFERENCES)
    once = html.unescape(comment["body"])
    assert not re.search(r"@\w", once) and not re.search(r"@\w", re.sub(r"\\(?=[@&])", "", once))


@pytest.mark.parametrize(
    ("given", "name"), [("", "gate"), ("a b", "a-b"), ("../x\ny=1", "x-y-1"), ("é", "gate"), ("n" * 99, "n" * 50)]
)
def test_a_job_of_its_own_makes_the_name_that_the_artifact_has(
    given: str, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = stand_in(folder, "## Evaluation: m\n\n**SHIP**: fine\n")
    assert run_action({**GATE, "name": given}, folder, path=programs).outputs["name"] == name
    monkeypatch.setenv("NAME", given)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setattr(sys, "argv", ["gate.py", "name"])
    runpy.run_path(str(REPOSITORY / ".github" / "action" / "gate.py"), run_name="__main__")
    assert (tmp_path / "output").read_text(encoding="utf-8") == f"name={name}\n"


@pytest.mark.parametrize(("allowed", "code"), [("true", 0), ("false", 3)])
def test_undecided_passes_if_it_may(allowed: str, code: int, folder: Path) -> None:
    programs = stand_in(folder, "## Evaluation: m\n\n**UNDECIDED**: few docs\n", "UNDECIDED", 3)
    ran = run_action({**GATE, "allow-undecided": allowed}, folder, path=programs)
    assert (ran.code, ran.outputs["decision"], ran.outputs["exit-code"]) == (code, "UNDECIDED", str(code))


def test_other_actions_are_pinned_and_no_script_holds_an_expression() -> None:
    steps = ACTION["runs"]["steps"]
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
