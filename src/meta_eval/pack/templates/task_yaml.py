"""Rewrites template YAML structurally: everything else in the file stays, including comments.

Text in, text out; no file is read or written.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from meta_eval.base.errors import TemplateError
from meta_eval.base.inputs import describe_error

# Module next to each task's YAML; see assets/pack_docs.py.
LOADER_MODULE = "pack_docs"
# Lets lm-eval's own IFEval find the pack's Punkt model, and loads the docs with pack_docs.
PUNKT_MODULE = "punkt_docs"

# Module next to the YAML of a choice task scored by the next token; see assets/next_token.py.
CHOOSING_MODULE = "next_token"
# Module next to the YAML of a task asked as chat messages; see assets/chat_task.py.
CHAT_MODULE = "chat_task"


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _load(text: str) -> CommentedMap:
    """A tree that may be changed. Of a list, ruamel's own `copy.deepcopy` takes time by the square of its length."""
    tree: CommentedMap = pickle.loads(_parsed(text))  # noqa: S301 (our own)
    return tree


@lru_cache(maxsize=256)
def _parsed(text: str) -> bytes:
    """The pickled tree of a text, parsed once for all packs of a process: it takes most of the time of a rewrite.

    Raises:
        TemplateError: PyYAML reads the text, but ruamel.yaml, which keeps comments, does not.
    """
    try:
        tree = _yaml().load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise TemplateError(
            f"cannot be rewritten: {describe_error(error)}", hint="Write it as the shipped templates are"
        ) from None
    if not isinstance(tree, CommentedMap):
        raise TemplateError("must be a YAML mapping")
    return pickle.dumps(tree)


def _dump(tree: CommentedMap) -> str:
    out = io.StringIO()
    _yaml().dump(tree, out)
    return out.getvalue()


def _function(reference: str) -> TaggedScalar:
    return TaggedScalar(reference, style=None, tag="!function")


def _replace_key(tree: CommentedMap, old: str, new: str, value: Any) -> None:
    """Replace ``old`` by ``new: value`` and keep its comments. Without ``old``, append it.

    If both exist, ``old`` becomes null instead of being removed, to keep its comments.
    """
    if new in tree or old not in tree:
        tree[new] = value
        if old in tree and old != new:
            tree[old] = None
        return
    position = list(tree).index(old)
    comment = tree.ca.items.pop(old, None)
    del tree[old]
    tree.insert(position, new, value)
    if comment is not None:
        tree.ca.items[new] = comment


def _arguments(tree: CommentedMap, arguments: Mapping[str, str | Mapping[str, str]]) -> CommentedMap:
    """Add arguments to ``dataset_kwargs``. Existing arguments stay, with their comments."""
    present = tree.get("dataset_kwargs")
    mapping = present if isinstance(present, CommentedMap) else CommentedMap()
    for name, value in arguments.items():
        # Quoted: a digest of digits only would be read as a number.
        mapping[name] = (
            DoubleQuotedScalarString(value)
            if isinstance(value, str)
            else CommentedMap({key: DoubleQuotedScalarString(text) for key, text in value.items()})
        )
    return mapping


def bundle_task(
    text: str,
    *,
    inherited: Collection[str],
    docs_file: str,
    sha256: str,
    beside: Mapping[str, str] | None = None,
) -> str:
    """Rewrite a task to read docs from a parquet file of the pack instead of a hub dataset.

    ``dataset_path`` becomes ``custom_dataset``, a function that finds the file next to itself, so the pack is
    relocatable. ``dataset_name`` becomes its arguments. ``process_docs`` is switched off, because docs are ready.

    Args:
        text: The template's YAML.
        inherited: The keys that its includes set. Those that no longer apply are switched off.
        docs_file: The parquet file, relative to the YAML's folder.
        sha256: Its digest, which the loader checks.
        beside: Files next to the YAML that scoring reads, each with its digest. The loader checks them too, so a
            damaged pack stops before generation.
    """
    tree = _load(text)
    arguments: dict[str, str | Mapping[str, str]] = {"docs_file": docs_file, "sha256": sha256}
    if beside:
        arguments["beside"] = beside
    _replace_key(tree, "dataset_path", "custom_dataset", _function(f"{LOADER_MODULE}.load"))
    _replace_key(tree, "dataset_name", "dataset_kwargs", _arguments(tree, arguments))
    for key in ("dataset_path", "dataset_name", "process_docs"):
        if key in tree or key in inherited:
            tree[key] = None
    return _dump(tree)


def rewrite_for_next_token(text: str, *, inherited: Collection[str]) -> str:
    """Rewrite a choice task to ask for the next token, with a copy of assets/next_token.py beside its YAML.

    Args:
        text: The YAML.
        inherited: The keys that its includes set.
    """
    tree = _load(text)
    tree["class"] = _function(f"{CHOOSING_MODULE}.NextToken")
    tree["output_type"] = "generate_until"
    tree["doc_to_target"] = "gold"
    tree["generation_kwargs"] = CommentedMap({"until": CommentedSeq(), "do_sample": False, "max_gen_toks": 1})
    if "doc_to_choice" in tree or "doc_to_choice" in inherited:
        tree["doc_to_choice"] = None
    return _dump(tree)


def rewrite_for_hub(text: str, *, dataset_path: str, dataset_name: str, revision: str) -> str:
    """Rewrite a task to read its rows from the hub at a fixed commit."""
    tree = _load(text)
    _replace_key(tree, "dataset_path", "dataset_path", dataset_path)
    _replace_key(tree, "dataset_name", "dataset_name", dataset_name)
    tree["dataset_kwargs"] = _arguments(tree, {"revision": revision})
    return _dump(tree)


def rename_task(text: str, *, name: str, subset: str) -> str:
    """Rewrite a task as a new task, with another subset and without published scores."""
    tree = _load(text)
    tree["task"] = name
    tree.pop("tag", None)
    block = (tree.get("metadata") or {}).get("meta_eval")
    if not isinstance(block, CommentedMap):
        raise TemplateError("metadata.meta_eval is set in an included file", hint="Name another task with --like")
    old = block["subset"]
    block["subset"] = subset
    block["row_format"] = "assumed"
    block.ca.items.pop("row_format", None)  # the comment of the other task's layout
    for key in ("published", "aliases", "groups"):
        if key in block:
            block[key] = CommentedMap() if key == "groups" else CommentedSeq()
    if "dataset_name" in tree:
        tree["dataset_name"] = str(tree["dataset_name"]).replace(f"__{old}__", f"__{subset}__")
    return _dump(tree)


def write_group(text: str | None, *, name: str, members: Sequence[str]) -> str:
    """Write the YAML of a group with the prepared members; new if the template folder has none."""
    tree = _load(text) if text is not None else CommentedMap({"group": name})
    tree["task"] = CommentedSeq(members)
    return _dump(tree)
