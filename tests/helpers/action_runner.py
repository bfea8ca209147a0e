"""Runs the steps of action.yml as a runner does: the few expressions that it uses, and each script in bash.

A script in Python takes a process of its own 60 ms to start, so most tests let it run in theirs.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from places import REPOSITORY

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
LEFT_OUT = ("Set up Python", "Install")  # the tests have a Python with meta-eval
SCRIPT = re.compile(r'python -I "\$GITHUB_ACTION_PATH/(\S+)" (\w+)')


@dataclass
class Ran:
    """What a run of the action left.

    Attributes:
        code: The exit code of the step that failed; 0 without one.
        outputs: Of the action.
        log: What the steps printed.
        summary: The job summary.
        artifact: The folder that was uploaded; None without one.
    """

    code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    artifact: str | None = None


def run_action(
    inputs: Mapping[str, str], folder: Path, *, event: str = "push", api: str = "", path: str = "", number: int = 7,
    in_bash: bool = False,
) -> Ran:  # fmt: skip
    """Run the action in a folder.

    Args:
        inputs: Its inputs.
        folder: The workspace.
        event: The event of the workflow.
        api: The address of GitHub's API.
        path: A folder whose programs come first.
        number: Of the pull request.
        in_bash: Run the scripts in Python in bash as well, and not in this process.
    """
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | dict(inputs)
    unknown = given.keys() - ACTION["inputs"].keys()
    missing = [name for name, one in ACTION["inputs"].items() if one.get("required") and not given[name]]
    assert not unknown and not missing
    temp = folder / "temp"
    temp.mkdir(exist_ok=True)
    (temp / "event.json").write_text(json.dumps({"pull_request": {"number": number}} if "pull" in event else {}))
    (temp / "summary.md").write_text("")
    values = {f"inputs.{name}": value for name, value in given.items()}
    values |= {"github.event_name": event, "github.token": "secret-token"}
    values = {name: _fill(value, values) for name, value in values.items()}
    said = {
        "RUNNER_TEMP": str(temp), "GITHUB_WORKSPACE": str(folder), "GITHUB_ACTION_PATH": str(REPOSITORY), "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(temp / "event.json"), "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
        "GITHUB_API_URL": api, "GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "me/models",
        "GITHUB_RUN_ID": "42", "GITHUB_SHA": "1a2b3c4",
        "PATH": os.pathsep.join([*([path] if path else []), str(Path(sys.executable).parent), os.environ["PATH"]]),
    }  # fmt: skip
    ran = Ran()
    for step in ACTION["runs"]["steps"]:
        if step["name"] in LEFT_OUT or not _is_true(step.get("if", ""), values):
            continue
        if "uses" in step:
            ran.artifact = _fill(step["with"]["path"], values)
            values["steps.upload.outputs.artifact-url"] = "https://github.example/artifact"
            continue
        ran.code = _run_step(step, values, {**os.environ, **said}, folder, ran, in_bash=in_bash)
        if ran.code and not step.get("continue-on-error"):
            break
    ran.summary = (temp / "summary.md").read_text(encoding="utf-8")
    ran.outputs = {name: _fill(one["value"], values) for name, one in ACTION["outputs"].items()}
    return ran


def _run_step(
    step: Mapping[str, Any], values: dict[str, str], env: dict[str, str], folder: Path, ran: Ran, *, in_bash: bool
) -> int:
    output = folder / "temp" / "output"
    output.write_text("")
    own = {name: _fill(value, values) for name, value in step.get("env", {}).items()}
    whole = {**env, **own, "GITHUB_OUTPUT": str(output)}
    script = SCRIPT.fullmatch(step["run"])
    run = _in_bash if in_bash or script is None else _here
    code, log = run(step["run"], whole, folder)
    ran.log += log
    for line in output.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        values[f"steps.{step['id']}.outputs.{name}"] = value
    return code


def _in_bash(script: str, env: dict[str, str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=env, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def _here(script: str, env: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run a script in Python in this process. Its error is the test's."""
    found = SCRIPT.fullmatch(script)
    assert found
    words = [str(REPOSITORY / found[1]), found[2]]
    log = io.StringIO()
    with patch.dict(os.environ, env, clear=True), patch.object(sys, "argv", words), chdir(folder), redirect_stdout(log):
        runpy.run_path(words[0], run_name="__main__")
    return 0, log.getvalue()


def _fill(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values.get(found[1], ""), str(text))


def _is_true(condition: str, values: Mapping[str, str]) -> bool:
    for part in filter(None, condition.split(" && ")):
        found = re.fullmatch(r"([\w.-]+) (==|!=) '(.*)'", part)
        assert found, f"the test's runner does not know {part!r}"
        if (values.get(found[1], "") == found[3]) != (found[2] == "=="):
            return False
    return True
