"""The steps of the action: `judge` writes pages and the job summary, and `comment` says the decision once.

Inputs come by the environment (action.yml), and so does what the runner says. Only Python's own modules are used.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROWS = 20  # of a table in the comment
SUMMARY = 900_000  # bytes; GitHub takes 1 MiB
TIMEOUT = 30  # seconds
WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
ERROR, UNDECIDED, FEW_RUNS = 2, 3, 3


def judge() -> None:
    """Judge the results and the history, and write the job summary and the outputs."""
    folder = Path(os.environ["RUNNER_TEMP"], f"meta-eval-{find_name()}")
    folder.mkdir(parents=True, exist_ok=True)
    code, said = judge_results(folder)
    summary = read(folder / "report.md") or f"## Evaluation\n\n**error**: {escape(said)}\n"
    decision = read_decision(folder / "report.json") if code != ERROR else "error"
    if code == UNDECIDED and os.environ["ALLOW_UNDECIDED"] == "true":
        code = 0
    if os.environ["HISTORY"] and decision != "error" and os.environ["GITHUB_EVENT_NAME"] != "pull_request":
        alarm, said = judge_history(folder)
        summary += "\n" + (read(folder / "history.md") or f"**error**: {escape(said)}\n")
        code = code or (0 if alarm == FEW_RUNS else alarm)
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(shorten(summary))
    (folder / "comment.md").write_text(make_comment(summary), encoding="utf-8")
    page = folder / "report.html"
    outputs = {
        "decision": decision, "exit-code": code, "folder": folder, "name": find_name(),
        "page": page if page.exists() else "",
    }  # fmt: skip
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())


def judge_results(folder: Path) -> tuple[int, str]:
    """The exit code of `report` or `compare`, and its last words."""
    results = [line.strip() for line in os.environ["RESULTS"].splitlines() if line.strip()]
    baseline = os.environ["BASELINE"]
    words = ["compare", baseline, "--", *results] if baseline else ["report", *results]
    options = {"--pack": os.environ["PACK"], "--gate": os.environ["GATE"], "--max-drop": os.environ["MAX_DROP"]}
    words += [f"{name}={value}" for name, value in options.items() if value]
    return run(words, folder, "report")


def judge_history(folder: Path) -> tuple[int, str]:
    """The exit code of `history check`, and its last words."""
    results = [line.strip() for line in os.environ["RESULTS"].splitlines() if line.strip()]
    history = f"--folder={os.environ['HISTORY']}"
    added, said = call(["history", "add", *results, history])
    if added.returncode:
        return ERROR, said
    shutil.copytree(os.environ["HISTORY"], folder / "history", dirs_exist_ok=True)
    return run(["history", "check", history, f"--false-alarms={os.environ['FALSE_ALARMS']}"], folder, "history")


def run(words: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run a command that writes a page, Markdown and JSON."""
    done, said = call([*words, f"--html={folder / name}.html", f"--markdown={folder / name}.md", "--json"])
    if done.returncode in (0, 1, UNDECIDED):
        (folder / f"{name}.json").write_text(done.stdout, encoding="utf-8")
        return done.returncode, said
    return ERROR, said


def call(words: list[str]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run meta-eval, with its words in the log and nothing in them taken for a command of the runner."""
    done = subprocess.run(["meta-eval", *words], capture_output=True, text=True, check=False)
    stop = secrets.token_hex(16)
    print(f"::stop-commands::{stop}\n{done.stderr}\n::{stop}::", flush=True)
    lines = done.stderr.strip().splitlines()
    return done, lines[-1] if lines else f"meta-eval ended with exit code {done.returncode}"


def read_decision(path: Path) -> str:
    tree = json.loads(path.read_text(encoding="utf-8"))
    decision = tree.get("decision")
    return str(decision["outcome"] if isinstance(decision, dict) else tree.get("outcome"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def shorten(text: str) -> str:
    """As much as a job summary may hold."""
    data = text.encode()
    return text if len(data) <= SUMMARY else data[:SUMMARY].decode(errors="ignore") + "\n\n… (more on the page)\n"


def escape(text: str) -> str:
    """A message as Markdown."""
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", text)


def make_comment(summary: str) -> str:
    """The head of the summary: the decision and the first table, with at most `ROWS` rows. It mentions nobody."""
    parts = summary.strip().split("\n\n")
    table = next((at for at, part in enumerate(parts) if part.startswith("|")), len(parts) - 1)
    kept = parts[: table + 1]
    lines = kept[-1].splitlines()
    if kept[-1].startswith("|") and len(lines) > ROWS + 2:
        kept[-1] = "\n".join(lines[: ROWS + 2])
        kept.append(f"{len(lines) - ROWS - 2} more rows are on the page.")
    return "\n\n".join(kept).replace("@", "@\u200b") + "\n"


# The comment


def comment() -> None:
    """Write the comment of the pull request, or write it anew."""
    folder = Path(os.environ["RUNNER_TEMP"], f"meta-eval-{find_name()}")
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number, repository = event["pull_request"]["number"], os.environ["GITHUB_REPOSITORY"]
    marker = f"<!-- meta-eval {find_name()} -->"
    job = f"{os.environ['GITHUB_SERVER_URL']}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']}"
    page = os.environ.get("PAGE_URL")
    links = f"[Page]({page}) · [Job]({job})" if page else f"[Job]({job})"
    body = f"{marker}\n{read(folder / 'comment.md')}\n{links}\n"
    try:
        known = find_comment(repository, number, marker)
        if known is None:
            ask("POST", f"/repos/{repository}/issues/{number}/comments", {"body": body})
        else:
            ask("PATCH", f"/repos/{repository}/issues/comments/{known}", {"body": body})
    except urllib.error.HTTPError as error:
        hint = " (pull requests of forks may not)" if error.code in (403, 404) else ""
        print(f"::warning::no comment: the token may not write here, HTTP {error.code}{hint}. See the job summary")
    except OSError as error:
        print(f"::warning::no comment: {type(error).__name__}. See the job summary")


def find_comment(repository: str, number: int, marker: str) -> int | None:
    """The comment that begins with the marker and is of an app or of somebody who may write here."""
    for page in range(1, 100):
        comments = ask("GET", f"/repos/{repository}/issues/{number}/comments?per_page=100&page={page}")
        for one in comments:
            can_write = one["user"]["type"] == "Bot" or one.get("author_association") in WRITERS
            if can_write and one["body"].startswith(marker):
                return int(one["id"])
        if len(comments) < 100:
            break
    return None


def ask(method: str, path: str, body: Any = None) -> Any:
    """Call GitHub's API."""
    request = urllib.request.Request(
        os.environ["GITHUB_API_URL"] + path, None if body is None else json.dumps(body).encode(), method=method,
        headers={
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28", "Content-Type": "application/json",
        },
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        return json.load(reply)


def find_name() -> str:
    """The name of the gate, which is part of paths and of the marker."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", os.environ.get("NAME", "")).strip("-")[:50] or "gate"


if __name__ == "__main__":
    {"judge": judge, "comment": comment}[sys.argv[1]]()
