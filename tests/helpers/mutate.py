"""Do the tests notice a fault? Draws small faults in src, puts in one at a time, and runs the quick tests.

    python tests/helpers/mutate.py 40 --seed 1             # forty faults: killed or alive
    python tests/helpers/mutate.py 40 --seed 1 --list      # only say what they are
    python tests/helpers/mutate.py 40 --seed 1 --only 3 7  # of these forty the third and the seventh
    python tests/helpers/mutate.py 40 --seed 1 --near      # only the tests that are near; others may kill what lives

A fault is another operator, comparison or number, a condition turned round, or a statement that is gone. Messages,
docstrings and signatures stay. The tests that are near run first, then all.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SELECTED = "not engine and not browser and not lighteval"
OTHERS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
# What says something, binds a name, or is for types.
LEFT_ALONE = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.arguments, ast.Assert)
SAYS = re.compile(r"(log|warn|notes?|err|typer)\b.*\(", re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """A node of a file, and what stands in its place."""

    file: Path
    node: ast.expr | ast.stmt
    text: str

    def apply(self, source: str) -> str:
        """The source with the fault. Columns count bytes."""
        content, node = source.encode(), self.node
        starts = [0]
        for line in content.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return (content[:begin] + self.text.encode() + content[end:]).decode()

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:120] for text in (ast.unparse(self.node), self.text))
        return f"{self.file.relative_to(ROOT)}:{self.node.lineno}: {before}  ->  {after}"


def find_nodes(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes that may be changed."""
    if isinstance(node, LEFT_ALONE) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
        return
    if isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or SAYS.match(ast.unparse(node))):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    children: list[ast.AST | None] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.AnnAssign):
        children = [node.value]
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        children = [*node.body]
    for child in filter(None, children):
        yield from find_nodes(child)


def has_text(node: ast.AST) -> bool:
    """Whether it joins a text, which another operator cannot."""
    return any(
        isinstance(part, ast.Constant) and not isinstance(part.value, int | float)
        for part in ast.iter_child_nodes(node)
    )


def change(node: ast.expr | ast.stmt) -> str | None:
    """What may stand in a node's place; None for nothing."""
    made = copy.deepcopy(node)
    match made:
        case ast.Compare(ops=[first, *_]) if type(first) in OTHERS:
            made.ops[0] = OTHERS[type(first)]()
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OTHERS and not has_text(made):
            made.op = OTHERS[type(op)]()
        case ast.Constant(value=bool()):
            made.value = not made.value
        case ast.Constant(value=int() | float()):
            made.value += 1
        case ast.UnaryOp(op=ast.Not()):
            made = made.operand
        case ast.IfExp():
            made.body, made.orelse = made.orelse, made.body
        case ast.Expr() | ast.AugAssign() | ast.Continue() | ast.Break():
            made = ast.Pass()
        case ast.Return(value=ast.expr()) if not isinstance(made.value, ast.Constant):
            made.value = ast.Constant(None)
        case _:
            return None
    return f"({ast.unparse(made)})" if isinstance(node, ast.expr) else ast.unparse(made)


def find_near(copied: Path, file: Path) -> list[str]:
    """The test files that name a module or share a word with its name; else its plug-in's, or all."""
    parts = file.relative_to(ROOT / "src").with_suffix("").parts
    names = [part for part in parts if part != "__init__"]
    files = [file for file in (copied / "tests").rglob("test_*.py") if "real" not in file.parts]  # they need an engine
    tests = {str(file.relative_to(copied)): file.read_text(encoding="utf-8") for file in files}
    room = f"tests/plugins/{parts[2]}/" if parts[1] == "plugins" else "tests/"
    words = [word for word in names[-1].split("_") if len(word) > 4]
    found = [test for test in tests if test.startswith(room) and any(word in Path(test).name for word in words)]
    module, name = ".".join(names), names[-1]
    named = re.compile(rf"{module}\b|from {'.'.join(names[:-1])} import .*\b{name}\b")
    found += [test for test, text in tests.items() if named.search(text)]
    return sorted(set(found)) or [room]


def try_fault(fault: Fault, copied: Path, *, near_only: bool, limit: float) -> str:
    """What became of it: the test that killed it, or "ALIVE"."""
    target, source = copied / fault.file.relative_to(ROOT), fault.file.read_text(encoding="utf-8")
    target.write_text(fault.apply(source), encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(copied / "src"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for tests in (find_near(copied, fault.file), *([] if near_only else [["-n", "2", "--dist", "loadfile"]])):
            words = [sys.executable, "-m", "pytest", "-x", "-m", SELECTED, "-p", "no:cacheprovider", *tests]
            done = subprocess.run(
                words, cwd=copied, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )
            if done.returncode != 0:
                found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return f"killed by {found[0] if found else done.stdout[-300:] + done.stderr[-300:]}"
    except subprocess.TimeoutExpired:
        return "killed by the limit of time"
    finally:
        target.write_text(source, encoding="utf-8")
    return "ALIVE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--near", action="store_true")
    parser.add_argument("--only", type=int, nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for the tests of a fault")
    chosen = parser.parse_args()
    files = sorted((ROOT / "src").rglob("*.py"))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    nodes = ((file, node) for file, tree in trees.items() for node in find_nodes(tree))
    faults = [Fault(file, node, text) for file, node in nodes if (text := change(node))]
    with tempfile.TemporaryDirectory(prefix="mutated-") as temporary:
        copied = Path(temporary) / ROOT.name
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".venv", "build", "dist", ".*_cache"))
        for number, fault in enumerate(random.Random(chosen.seed).sample(faults, chosen.count), 1):
            if not chosen.only or number in chosen.only:
                end = (
                    "" if chosen.list else f"\n  {try_fault(fault, copied, near_only=chosen.near, limit=chosen.limit)}"
                )
                print(f"{number} {fault}{end}", flush=True)  # noqa: T201 (a program)


if __name__ == "__main__":
    main()
