"""The steps of the action: `judge` writes pages and the job summary, and `comment` says the decision once.

`name` is for a job that runs `comment` alone: it writes the gate's name, which is part of the artifact's.

Inputs come by the environment (action.yml), and so does what the runner says. Only Python's own modules are used.
"""

from __future__ import annotations

import http.client
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
COMMENT = 60_000  # characters; GitHub takes 65,536
REPLY = 32 * 2**20  # bytes of a page of comments: at most 100 of 256 KiB
TIMEOUT = 30  # seconds
WRITERS = ("OWNER", "MEMBER", "COLLABORATOR")
ERROR, UNDECIDED, FEW_RUNS = 2, 3, 3
OUTCOMES = ("SHIP", "DON'T SHIP", "UNDECIDED")

# An absolute path of two parts or more, and its last part. Addresses and words such as "and/or" are none.
PATH = re.compile(r"(?<![\w/.~…\\-])(?:file://)?/(?:[^\s/|<>()'\"`,;:]+/)+([^\s/|<>()'\"`,;:]*)")
# An @, and what may begin a reference that Markdown or HTML makes one of: &#64; &#x40; &commat;
MENTION = re.compile(r"@|&(?=#|commat)")
# What a page shows: its texts and titles, and not its scripts, whose hashes stand in the page.
PAGE = re.compile(r'(?is)<(script|style)\b.*?</\1>|(?<=>)[^<]+|(?<= title=")[^"]+|(?<= aria-label=")[^"]+')


def judge() -> None:
    """Judge the results and the history, and write the job summary and the outputs."""
    folder = Path(os.environ["RUNNER_TEMP"], f"meta-eval-{find_name()}")
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier gate of this name
    folder.mkdir(parents=True, exist_ok=True)
    code, said = judge_results(folder)
    summary = read(folder / "report.md") or f"## Evaluation\n\n**error**: {escape(said)}\n"
    decision = read_decision(folder / "report.json") if code != ERROR else "error"
    if decision == "error":  # an input that is an option, such as --help, ends with 0 and no decision
        code = ERROR
    if code == UNDECIDED and os.environ["ALLOW_UNDECIDED"] == "true":
        code = 0
    if os.environ["HISTORY"] and decision != "error" and os.environ["GITHUB_EVENT_NAME"] != "pull_request":
        alarm, said = judge_history(folder)
        summary += "\n" + (read(folder / "history.md") or f"**error**: {escape(said)}\n")
        code = code or (0 if alarm == FEW_RUNS else alarm)
    summary = hide_paths(summary)
    hide_paths_of_pages(folder)
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(shorten(summary))
    (folder / "comment.md").write_text(make_comment(summary), encoding="utf-8")
    page = folder / "report.html"
    outputs = {
        "decision": decision, "exit-code": code, "folder": folder, "name": find_name(),
        "page": page if page.exists() else "",
    }  # fmt: skip
    write_outputs(outputs)


def write_outputs(outputs: dict[str, Any]) -> None:
    """Write outputs of a step."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())


def list_results() -> list[str]:
    """The input `results`, a path a line."""
    return [name_path(line.strip()) for line in os.environ["RESULTS"].splitlines() if line.strip()]


def name_path(path: str) -> str:
    """A path that is not taken for an option."""
    return f"./{path}" if path.startswith("-") else path


def judge_results(folder: Path) -> tuple[int, str]:
    """The exit code of `report` or `compare`, and its last words."""
    results, baseline = list_results(), name_path(os.environ["BASELINE"])
    words = ["compare", baseline, "--", *results] if baseline else ["report", *results]
    options = {"--pack": os.environ["PACK"], "--gate": os.environ["GATE"], "--max-drop": os.environ["MAX_DROP"]}
    if not options["--gate"] and not options["--max-drop"]:  # the margin of the pack, or 1 point
        (folder / "gate.yaml").write_text("{}\n", encoding="utf-8")
        options["--gate"] = str(folder / "gate.yaml")
    words += [f"{name}={value}" for name, value in options.items() if value]
    return run(words, folder, "report")


def judge_history(folder: Path) -> tuple[int, str]:
    """The exit code of `history check`, and its last words."""
    results = list_results()
    history = f"--folder={os.environ['HISTORY']}"
    added, said = call(["history", "add", *results, history])
    if added.returncode:
        return ERROR, said
    try:
        shutil.copytree(os.environ["HISTORY"], folder / "history", dirs_exist_ok=True)
    except OSError as error:
        return ERROR, f"the history cannot be copied: {type(error).__name__}"
    rate = [f"--false-alarms={os.environ['FALSE_ALARMS']}", f"--runs-a-year={os.environ['RUNS_A_YEAR']}"]
    return run(["history", "check", history, *rate], folder, "history")


def run(words: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run a command that writes a page, Markdown and JSON."""
    done, said = call([*words, f"--html={folder / name}.html", f"--markdown={folder / name}.md", "--json"])
    if done.returncode in (0, 1, UNDECIDED):
        (folder / f"{name}.json").write_text(done.stdout, encoding="utf-8")
        return done.returncode, said
    return ERROR, said


def call(words: list[str]) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run meta-eval, with its words in the log and nothing in them taken for a command of the runner."""
    done = subprocess.run(["meta-eval", *words], capture_output=True, encoding="utf-8", errors="replace", check=False)
    stop = secrets.token_hex(16)
    print(f"::stop-commands::{stop}\n{done.stderr}\n::{stop}::", flush=True)
    lines = done.stderr.strip().splitlines()
    return done, lines[-1].removeprefix("error: ") if lines else f"meta-eval ended with exit code {done.returncode}"


def read_decision(path: Path) -> str:
    """The outcome that a report has; `error` if it has none."""
    try:
        tree = json.loads(read(path))
        decision = tree.get("decision")
        outcome = decision["outcome"] if isinstance(decision, dict) else tree.get("outcome")
    except (ValueError, KeyError, AttributeError):
        return "error"
    return outcome if outcome in OUTCOMES else "error"


def read(path: Path) -> str:
    """A text; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""


def hide_paths(text: str) -> str:
    """A text in which paths of the workspace are relative, and other absolute paths have their last part alone."""
    for root in filter(None, map(os.environ.get, ("GITHUB_WORKSPACE", "RUNNER_WORKSPACE"))):
        escaped = "".join(rf"\\?{re.escape(letter)}" for letter in root.rstrip("/"))  # a path may be Markdown
        text = re.sub(rf"(?<![\w/.]){escaped}(?:/|(?![\w.-]))", "", text) if len(root) > 1 else text
    return PATH.sub(r"…/\1", text)


def hide_paths_of_pages(folder: Path) -> None:
    """Hide paths in the pages, Markdown and JSON of a folder. What the samples of a page hold is left as it is."""
    for path in (path for path in folder.iterdir() if path.suffix in (".html", ".md", ".json")):
        text = path.read_bytes().decode(errors="replace")  # a page keeps its line ends
        if path.suffix == ".html":
            hidden = PAGE.sub(lambda found: found[0] if found[1] else hide_paths(found[0]), text)
        else:
            hidden = hide_paths(text)
        if hidden != text:
            path.write_bytes(hidden.encode())


def shorten(text: str) -> str:
    """As much as a job summary may hold."""
    data = text.encode()
    return text if len(data) <= SUMMARY else data[:SUMMARY].decode(errors="ignore") + "\n\n… (more on the page)\n"


def escape(text: str) -> str:
    """A message as Markdown."""
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", text)


def make_comment(summary: str) -> str:
    """The head of the summary: the decision and the first table, with at most `ROWS` rows."""
    parts = summary.strip().split("\n\n")
    table = next((at for at, part in enumerate(parts) if part.startswith("|")), len(parts) - 1)
    kept = parts[: table + 1]
    lines = kept[-1].splitlines()
    if kept[-1].startswith("|") and len(lines) > ROWS + 2:
        kept[-1] = "\n".join(lines[: ROWS + 2])
        kept.append(f"{len(lines) - ROWS - 2} more rows are on the page.")
    return "\n\n".join(kept) + "\n"


# The comment


class ReplyError(Exception):
    """What GitHub's API answers is not what it should be."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token would go along, to whatever host it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def comment() -> None:
    """Write the comment of the pull request, or write it anew. What fails is a warning, and never stops the gate."""
    try:
        write_comment()
    except urllib.error.HTTPError as error:
        hint = " (pull requests of forks may not)" if error.code in (403, 404) else ""
        why = "the token may not write here, " if error.code in (401, 403, 404) else ""
        print(f"::warning::no comment: {why}HTTP {error.code}{hint}. See the job summary")
    except ReplyError as error:
        print(f"::warning::no comment: {error}. See the job summary")
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: an address that is none
        print(f"::warning::no comment: {type(error).__name__}. See the job summary")


def write_comment() -> None:
    folder = Path(os.environ["RUNNER_TEMP"], f"meta-eval-{find_name()}")
    number, repository = read_number(), os.environ["GITHUB_REPOSITORY"]
    marker = f"<!-- meta-eval {find_name()} -->"
    job = f"{os.environ['GITHUB_SERVER_URL']}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']}"
    page = os.environ.get("PAGE_URL")
    links = f"[Page]({page}) · [Job]({job})" if page else f"[Job]({job})"
    # The text may be of a job that ran the pull request's code: it mentions nobody.
    text = MENTION.sub("\\g<0>\u200b", read(folder / "comment.md"))
    text = text if len(text) <= COMMENT else f"{text[:COMMENT]}\n\n… (more on the page)\n"
    body = {"body": f"{marker}\n{text}\n{links}\n"}
    known = find_comment(repository, number, marker)
    if known is None:
        ask("POST", f"/repos/{repository}/issues/{number}/comments", body)
    else:
        ask("PATCH", f"/repos/{repository}/issues/comments/{known}", body)


def read_number() -> int:
    """The number of the pull request."""
    try:
        event = json.loads(read(Path(os.environ["GITHUB_EVENT_PATH"])))
        return int(event["pull_request"]["number"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise ReplyError("the event names no pull request") from None


def find_comment(repository: str, number: int, marker: str) -> int | None:
    """The comment that begins with the marker and is of an app or of somebody who may write here.

    Comments of deleted accounts have no user, and others may lack a text.
    """
    for page in range(1, 100):
        comments = ask("GET", f"/repos/{repository}/issues/{number}/comments?per_page=100&page={page}")
        if not isinstance(comments, list):
            raise ReplyError("GitHub's API gave no list of comments")
        for one in comments:
            if isinstance(one, dict) and isinstance(one.get("id"), int) and str(one.get("body")).startswith(marker):
                user = one.get("user")
                is_bot = isinstance(user, dict) and user.get("type") == "Bot"
                if is_bot or one.get("author_association") in WRITERS:
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
    with urllib.request.build_opener(NoRedirect).open(request, timeout=TIMEOUT) as reply:
        raw = reply.read(REPLY + 1)
    if method != "GET":  # it was written, whatever is said of it
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise ReplyError("GitHub's API gave no JSON") from None


def find_name() -> str:
    """The name of the gate, which is part of paths and of the marker."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", os.environ.get("NAME", "")).strip("-")[:50] or "gate"


if __name__ == "__main__":
    {"judge": judge, "comment": comment, "name": lambda: write_outputs({"name": find_name()})}[sys.argv[1]]()
