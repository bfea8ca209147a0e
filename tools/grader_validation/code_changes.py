"""Programs with a single change in two harnesses. The change lets some tests fail."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from template_graders import compared


def changed(program: str, draw: random.Random, count: int) -> Iterator[str]:
    """Yield up to ``count`` variants with another operator, number, condition or return value."""
    tree = ast.parse(program)
    places = [number for number, node in enumerate(ast.walk(tree)) if change(copy.deepcopy(node))]
    for place in draw.sample(places, min(count, len(places))):
        mutant = copy.deepcopy(tree)
        change(list(ast.walk(mutant))[place])
        yield ast.unparse(ast.fix_missing_locations(mutant))


def change(node: ast.AST) -> bool:
    """Change a node. False if it has nothing to change."""
    swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.Div: ast.Mult}
    compares = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq}
    compares |= {other: first for first, other in compares.items()}
    if isinstance(node, ast.BinOp) and type(node.op) in swaps:
        node.op = swaps[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in compares:
        node.ops[0] = compares[type(node.ops[0])]()
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        node.value = not node.value
    elif isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.Return) and node.value is not None:
        node.value = ast.Constant(None)
    else:
        return False
    return True


def compared_programs(ours: Sequence[Mapping[str, Any]], theirs: Sequence[bool]) -> dict[str, Any]:
    """Return an entry's counts from our grader's results and the others' verdicts."""
    return compared(
        [our["passed"] >= 1 for our in ours],
        theirs,
        lambda n: "passes with us alone" if ours[n]["passed"] else f"fails with us alone: {ours[n]['why']}",
    )
