"""The walk of one doc: which files of a checkout have it in hand, and where the walk turns back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from places import REPOSITORY

CLI = """
from meta_eval import first, second

def main():
    row = first.read("Why?")
    second.check({"rows": [row]})
    first.write(row)
    second.other("nothing of it")
    raise SystemExit(3)
"""
FIRST = """
def read(question):
    return {"question": question}

def write(row):
    return None
"""
SECOND = """
def check(tree):
    return True

def other(text):
    return text
"""


def test_it_names_the_files_in_order_and_counts_what_is_visited_again(tmp_path: Path) -> None:
    package = tmp_path / "src" / "meta_eval"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("cli", CLI), ("first", FIRST), ("second", SECOND)):
        (package / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "walk.py", "--checkout", tmp_path, "--question", "Why?", "report"],
        capture_output=True, text=True, check=False, env={},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "  first.py: read",
        "  second.py: check",
        "< first.py: write",
        "2 files, 1 turns back, 3 functions",
    ]
