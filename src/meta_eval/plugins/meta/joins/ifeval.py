"""IFEval: the instructions of each prompt and their arguments, which the evals dataset leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from meta_eval.plugins.meta.joins.join import KnownDifference, Original, RowJoin
from meta_eval.sockets import DataError, parse_json

if TYPE_CHECKING:
    from meta_eval.plugins.meta.source.rows import SourceRow


class _IFEval(RowJoin):
    def question(self, row: SourceRow) -> str:
        return read_dialog_prompt(row)

    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        ids, kwargs = original.get("instruction_id_list"), original.get("kwargs")
        if not isinstance(original.get("key"), int) or not isinstance(ids, list) or not isinstance(kwargs, list):
            raise DataError("should hold key (int), instruction_id_list and kwargs (lists)")
        if not ids or len(ids) != len(kwargs):
            raise DataError(f"has {len(ids)} instructions and {len(kwargs)} kwargs")
        # google/IFEval fills every missing keyword with null. Without the nulls the object equals the original file's.
        sparse = [{name: value for name, value in (item or {}).items() if value is not None} for item in kwargs]
        return {
            "key": original["key"],
            "original_prompt": original["prompt"],
            "instruction_id_list": ids,
            "kwargs": [json.dumps(item, ensure_ascii=False, sort_keys=True) for item in sparse],
        }


def read_dialog_prompt(row: SourceRow) -> str:
    """The only user message of a dialog, which ``input_question`` holds as JSON. Plain text is the prompt itself.

    Literals ``true``, ``false`` and ``null`` are JSON's. Inside a prompt they are text.

    Raises:
        DataError: The JSON has another shape, or several user messages.
    """
    question = str(row["input_question"])
    try:
        tree = parse_json(question)
    except ValueError:
        if question.lstrip().startswith('{"dialog"'):
            raise DataError("input_question holds a truncated or malformed JSON dialog") from None
        return question
    if not isinstance(tree, dict) or "dialog" not in tree:
        return question
    dialog = tree["dialog"]
    messages = dialog if isinstance(dialog, list) else []
    bodies = [
        message["body"]
        for message in messages
        if isinstance(message, dict)
        and message.get("source", "user") == "user"
        and isinstance(message.get("body"), str)
    ]
    if len(bodies) != 1:
        raise DataError(f"the dialog in input_question has {len(bodies)} user messages, expected 1")
    return str(bodies[0])


# Meta's rows, the copy that Meta's recipe joins (wis-k's) and Google's published answers of GPT-4 of November 2023 ask
# for one placeholder. Google's current file asks for three. The known arguments always say three.
_KEY_2785 = KnownDifference(
    "IFEval key 2785",
    frozenset(
        (
            "97041f9fbf0d02962896466c30937aa063865e9ff89a53c5a3b4d10c455960ec",
            "014b9f6e1df1d06b45166ccf877131abb341faf2dd408872370690e3d927e0e3",
        )
    ),
    "the prompt asks for at least one placeholder in some copies and for three in others, and three are checked in all",
)
_COPIES = (
    "wis-k/instruction-following-eval and google/IFEval on the hub",
    "instruction_following_eval/data/input_data.jsonl of google-research/google-research on GitHub (SHA-256 67ffeee0…)",
)

IFEVAL = _IFEval(
    "ifeval",
    Original(id="wis-k/instruction-following-eval", fallback="google/IFEval"),
    split="train",
    key_columns=("prompt",),
    known_differences=(_KEY_2785,),
    copies=_COPIES,
)
