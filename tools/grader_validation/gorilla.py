"""Compare the gorilla_* grader with APIBench's own AST evaluation on the answers of its repository.

    git clone https://github.com/ShishirPatil/gorilla CHECKOUT        # at 6ea5797
    pip install tree-sitter tree-sitter-python pyyaml
    python tools/grader_validation/gorilla.py --data CHECKOUT

The official scripts (gorilla/eval/eval-scripts/ast_eval_*.py) need a tree-sitter of 2023 and a compiled grammar next to
them. Here they get the current binding and grammar. Everything else in them is unchanged.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import tree_sitter
import tree_sitter_python
from template_graders import checkout, lines, module, show, tallied, template_module

# The script and the file of the questions
HUBS = {"huggingface": ("hf", "huggingface"), "torchhub": ("th", "torchhub"), "tensorflowhub": ("tf", "tensorflow")}
LANGUAGE = tree_sitter.Language(tree_sitter_python.language())
PROSE = "no api_call: tree-sitter's recovery from words and code in one line of text decides what is a call"
BROKEN = "the code after api_call is broken, and tree-sitter recovers from it in another way"


class Node:
    """A node for the scripts, because the current binding has no ``sexp``."""

    def __init__(self, node: Any) -> None:
        self.children = [Node(child) for child in node.children]
        self.child_count = len(self.children)
        self.text = node.text

    def sexp(self) -> str:
        return ""


def parse(code: str, lang: str = "python") -> Node:  # noqa: ARG001
    return Node(tree_sitter.Parser(LANGUAGE).parse(code.encode()).root_node)


def script(folder: Path, name: str) -> ModuleType:
    """Import an official script and replace its parser."""
    result = module(folder / "gorilla" / "eval" / "eval-scripts" / f"ast_eval_{name}.py")
    result.ast_parse = parse  # type: ignore[attr-defined]
    return result


def official(module: ModuleType, text: str, database: list[Node], *, whole: bool) -> int | None:
    """Return the index of the called API in the database, -1 without one, and None for an unread answer."""
    parts = text.split("api_call")
    if len(parts) == 1 and not whole:
        return None
    code = parts[0]
    if len(parts) > 1:
        output = parts[1].split("api_provider")[0]
        start = output.index(":") if ":" in output else 0
        end = output.rindex(")") if ")" in output else -2
        code = output[start + 2 : end + 1]
    return int(module.ast_check(module.get_all_sub_trees(parse(code)), database))


def counts(folder: Path, hub: str) -> dict[str, Any]:
    """Return the counts of a hub's entry."""
    name, questions = HUBS[hub]
    scorer = script(folder, name)
    apibench = template_module("tools/apibench.py")
    table = folder / "data" / "api" / f"{hub}_api.jsonl"
    rows = lines(table)
    trees = [parse(row["api_call"]) for row in rows]
    database = apibench.read_database(table, hub)
    asked = lines(folder / "data" / "apibench" / f"{questions}_eval.json")
    every: list[tuple[bool, bool, str]] = []
    hallucinations = 0
    zero_shot = ""
    for file in sorted((folder / "gorilla" / "eval" / "eval-data" / "responses" / hub).glob("*.jsonl")):
        before = len(every)
        for answer in lines(file):
            text, domain = answer["text"], asked[answer["question_id"] - 1]["api_data"]["domain"]
            whole = apibench.HUBS[hub].whole
            index = official(scorer, text, trees, whole=whole)
            theirs = index is not None and index != -1 and rows[index]["domain"] == domain
            code = apibench.code_of(text, whole=whole)
            result = apibench.meant(code, database) if code is not None else None
            ours = result is not None and result.domain == domain
            every.append((ours, theirs, BROKEN if "api_call" in text else PROSE))
            hallucinations += (index == -1) == (code is not None and result is None)
        if file.stem.endswith("Gorilla_FT_0_shot"):
            here = tallied(every[before:])
            zero_shot = (
                f"Of the {here['answers']} zero-shot answers of the fine-tuned model {here['agreed']} agree: "
                f"{here['ours']:.2f}, officially {here['theirs']:.2f}."
            )
    return {
        **tallied(every),
        "note": f"{zero_shot} Whether an answer is a hallucination agrees on {hallucinations}.",
    }


def main() -> None:
    folder = checkout(__doc__, "ShishirPatil/gorilla", "6ea5797")
    show({f"gorilla_{hub}": counts(folder, hub) for hub in HUBS})


if __name__ == "__main__":
    main()
