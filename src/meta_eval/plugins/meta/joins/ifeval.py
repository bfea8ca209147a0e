"""IFEval: the instructions of each prompt and their arguments, which the evals dataset leaves out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import quoted
from meta_eval.base.errors import suggest_name
from meta_eval.plugins.meta.joins.join import COPY, KnownDifference, Original, RowJoin
from meta_eval.sockets import DataError, parse_json

if TYPE_CHECKING:
    from meta_eval.plugins.meta.source.rows import SourceRow


class _IFEval(RowJoin):
    def question(self, row: SourceRow) -> str:
        return read_dialog_prompt(row)

    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        key, ids, kwargs = original.get("key"), original.get("instruction_id_list"), original.get("kwargs")
        if type(key) is not int or not -(1 << 63) <= key < 1 << 63:
            raise DataError(f"key is {quoted(key)} and should be a whole number of 64 bits", hint=COPY)
        if not isinstance(ids, list) or not isinstance(kwargs, list):
            raise DataError(f"key {key} should hold instruction_id_list and kwargs (lists)", hint=COPY)
        if not ids or len(ids) != len(kwargs):
            raise DataError(f"key {key} has {len(ids)} instructions and {len(kwargs)} kwargs", hint=COPY)
        # google/IFEval fills every missing keyword with null. Without the nulls the object equals the original file's.
        sparse = [_drop_nulls(item) if isinstance(item, dict | None) else item for item in kwargs]
        for instruction, arguments in zip(ids, sparse, strict=True):
            _check_instruction(key, instruction, arguments)
        return {
            "key": key,
            "original_prompt": original["prompt"],
            "instruction_id_list": ids,
            "kwargs": [json.dumps(item, ensure_ascii=False, sort_keys=True) for item in sparse],
        }


def _drop_nulls(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Without nulls, and whole numbers as such: a table that held nulls may have made 5.0 of 5."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    return {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in given.items()}


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# What repeats a part of a regular expression: its search may take longer than anyone waits. No original has one.
_REPEATS = re.compile(r"(?<!\\)[*+{]|(?:(?<!\\)\?.*){9}", re.DOTALL)


def _is_pattern(value: object) -> bool:
    try:
        return _is_text(value) and not _REPEATS.search(str(value)) and bool(re.compile(str(value)))
    except (re.error, OverflowError, RecursionError):
        return False


# What an argument must be, and in words. The checkers draw at random what is empty, negative or not there.
_Argument = tuple[Callable[[Any], bool], str]
_COUNT: _Argument = _is_count, "a whole number from 1"
_TEXT: _Argument = _is_text, "a text"
_PATTERN: _Argument = _is_pattern, "a text that is a regular expression without repetitions"
_PATTERNS: _Argument = (
    lambda value: isinstance(value, list) and bool(value) and all(map(_is_pattern, value)),
    "a list of texts, each a regular expression without repetitions",
)
_RELATION: _Argument = lambda value: value in ("less than", "at least"), "'less than' or 'at least'"
_LETTER: _Argument = lambda value: isinstance(value, str) and len(value) == 1, "a text of one character"
LANGUAGES = "en es pt ar hi fr ru de ja it bn uk th ur ta te bg ko pl he fa vi ne sw kn mr gu pa ml fi"
_LANGUAGE: _Argument = lambda value: value in LANGUAGES.split(), f"one of {LANGUAGES}"

# Each instruction that lm-eval checks, with the arguments that its checker takes. A test compares them with lm-eval.
INSTRUCTIONS: Mapping[str, Mapping[str, _Argument]] = {
    "change_case:capital_word_frequency": {"capital_frequency": _COUNT, "capital_relation": _RELATION},
    "change_case:english_capital": {},
    "change_case:english_lowercase": {},
    "combination:repeat_prompt": {"prompt_to_repeat": _TEXT},
    "combination:two_responses": {},
    "detectable_content:number_placeholders": {"num_placeholders": _COUNT},
    "detectable_content:postscript": {"postscript_marker": _PATTERN},
    "detectable_format:constrained_response": {},
    "detectable_format:json_format": {},
    "detectable_format:multiple_sections": {"section_spliter": _PATTERN, "num_sections": _COUNT},
    "detectable_format:number_bullet_lists": {"num_bullets": _COUNT},
    "detectable_format:number_highlighted_sections": {"num_highlights": _COUNT},
    "detectable_format:title": {},
    "keywords:existence": {"keywords": _PATTERNS},
    "keywords:forbidden_words": {"forbidden_words": _PATTERNS},
    "keywords:frequency": {"keyword": _PATTERN, "frequency": _COUNT, "relation": _RELATION},
    "keywords:letter_frequency": {"letter": _LETTER, "let_frequency": _COUNT, "let_relation": _RELATION},
    "language:response_language": {"language": _LANGUAGE},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": _COUNT, "nth_paragraph": _COUNT, "first_word": _TEXT,
    },
    "length_constraints:number_paragraphs": {"num_paragraphs": _COUNT},
    "length_constraints:number_sentences": {"num_sentences": _COUNT, "relation": _RELATION},
    "length_constraints:number_words": {"num_words": _COUNT, "relation": _RELATION},
    "punctuation:no_comma": {},
    "startend:end_checker": {"end_phrase": _TEXT},
    "startend:quotation": {},
}  # fmt: skip


def _check_instruction(key: int, instruction: object, arguments: object) -> None:
    """Refuse an instruction that lm-eval's checkers cannot check as it is: its answers would count as wrong.

    Raises:
        DataError: It is unknown, or has other arguments than its checker takes.
    """
    known = INSTRUCTIONS.get(instruction) if isinstance(instruction, str) else None
    if known is None:
        near = suggest_name(str(instruction), INSTRUCTIONS)
        raise DataError(f"key {key} has an instruction that no one can check, {quoted(instruction)}{near}", hint=COPY)
    if not isinstance(arguments, dict):
        raise DataError(f"key {key}: kwargs of {instruction} are {quoted(arguments)} and no object", hint=COPY)
    for name in (*known, *sorted(arguments.keys() - known.keys())):
        fits, words = known.get(name, (lambda _: False, "left out"))
        if not fits(arguments.get(name)):
            held = quoted(arguments[name]) if name in arguments else "missing"
            raise DataError(f"key {key}: {name} of {instruction} is {held} and should be {words}", hint=COPY)


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
