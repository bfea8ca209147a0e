"""GSM8K and MGSM: where in an output the answer stands, and is it the right number?

Two answers are equal when their values are (``_common/numbers.py``), so that Meta's list of spellings of a gold (18,
18., 18.0, 18.00) and whatever the model wrote meet.
"""

import re
import unicodedata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, numbers = load.module(".._common.rows"), load.module(".._common.numbers")
macro_average = rows.macro_average

# The word that MGSM's prompts ask for before the answer, in each of its languages.
ANSWER_WORDS = {
    "bn": "উত্তর", "de": "Antwort", "en": "Answer", "es": "Respuesta", "fr": "Réponse", "ja": "答え", "ru": "Ответ",
    "sw": "Jibu", "te": "సమాధానం", "th": "คำตอบ", "zh": "答案",
}  # fmt: skip

# As a subtask may name its language.
_NAMES = {
    "bengali": "bn", "german": "de", "english": "en", "spanish": "es", "french": "fr", "japanese": "ja",
    "russian": "ru", "swahili": "sw", "telugu": "te", "thai": "th", "chinese": "zh",
}  # fmt: skip

# What ends a label: colons of every width, and Bengali's visarga, which is typed for one.
_COLON = "[:\uff1a\ufe55\u0983]"
# What may stand between the answer word and its colon: a few words ("Respuesta final:"), emphasis, quotation marks.
_REST_OF_LABEL = "[^\\n\\d.,;!?\u0964\u3001\u3002\uff0c:\uff1a\ufe55\u0983]{0,30}"


# A sign that stands before the first digit: not the one of 7-5.
_MINUS = re.compile(r"^[^\d]*?(?<![\w)\]%])[-\u2212\u2013] ?(?:\\?[$€£])?\.?\d")
_IN_DOLLARS = re.compile(r"\$([^$]*)\$")
_DIGITS = re.compile(r"\d|(?<![A-Za-z])\.(?=\d)")

# Docs


def make_doc(row: dict) -> dict:
    """The columns that every doc of every task has.

    Raises:
        ValueError: None of the correct responses is a number, so that no answer could be right.
    """
    doc = rows.make_doc(row)
    if not golds(doc):
        raise rows.refused(row, f"none of the correct responses {doc['answers']} is a number")
    return doc


process_docs = rows.docs_by(make_doc)


def golds(doc: dict) -> set[str]:
    """The values that are right, each once."""
    return {value for value in map(numbers.whole, doc["answers"]) if value is not None}


def language(doc: dict) -> str | None:
    """The language that a subtask's name ends in (``mgsm.de``, ``mgsm.german``); None where it names none."""
    last = re.split(r"[^a-z]+", (doc["subtask_name"] or "").lower())[-1]
    code = _NAMES.get(last, last)
    return code if code in ANSWER_WORDS else None


# Filters: for each doc's outputs the answer as a plain number, or what lm-eval's own filters say of no match.


def after_final_answer(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """The number that Meta reads behind the last "The final answer is", the words that gsm8k's prompt asks for."""
    return rows.each(resps, docs, lambda output, _: final_answer(output))


def after_answer_word(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """The number behind the last "Answer:", in the words of the doc's language, as MGSM's prompts ask for."""
    return rows.each(resps, docs, lambda output, doc: labelled(output, language(doc)))


def last_number(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """The last number of the output, wherever it stands."""
    return rows.each(resps, docs, lambda output, doc: numbers.last(output, language(doc)))


def final_answer(output: str) -> str | None:
    """The number in the line behind the last "final answer is", in any case; None when there is none."""
    starts = [match.end() for match in re.finditer(r"(?i:final answer is)(?:\s*:\s*|\s+)", output)]
    return joined(output[starts[-1] :].partition("\n")[0]) if starts else None


def joined(text: str) -> str | None:
    r"""All digits of an answer as one number, as Meta reads it: "30 pens and 12 cups" is 3012, "7/4" is 74.

    Meta first normalises the text as an answer of MATH: the right side of "=", what stands between two dollar signs,
    and a half as ``\frac{1}{2}``, whose digits are 12. Eleven recorded answers show this, all but the "=", which is
    Minerva's rule. They are those that a public script found whose last number is not what Meta read; as no other
    decimal and no minus is among them, these stay.
    """
    text = text.rpartition("=")[2]
    between = _IN_DOLLARS.search(text)
    text = (between[1] if between else text).replace(",", "")
    if text.strip().rstrip(".") == "0.5":
        return "12"
    digits = "".join(_DIGITS.findall(text))
    return numbers.whole(f"{'-' if _MINUS.match(text) else ''}{digits}") if digits else None


def labelled(output: str, spoken: str | None) -> str | None:
    """The last number on the line of the last label, which is the answer word and a colon; None when there is none.

    The line is the next one where nothing follows the colon. Emphasis may stand around the word and the number, and a
    few words between the word and its colon ("Respuesta final:"). An output without a label gives the last number that
    stands behind the last answer word in its line ("答えは 18"): simple-evals, whose prompts these are, asks for no
    colon. Where the language is unknown, the word of any will do.
    """
    words = "|".join([ANSWER_WORDS[spoken]] if spoken else ANSWER_WORDS.values())
    text = unicodedata.normalize("NFC", output)
    starts = [match.end() for match in re.finditer(rf"(?i:{words}){_REST_OF_LABEL}{_COLON}", text)]
    if not starts:
        ends = [match.end() for match in re.finditer(rf"(?i:{words})", text)]
        # A dash right behind the word parts it from the number.
        rest = re.sub(r"^[-\u2013\u2014]", " ", text[ends[-1] :].partition("\n")[0]) if ends else ""
        return numbers.last(rest, spoken)
    lines = [line for line in text[starts[-1] :].splitlines() if re.search(r"\w", line)]
    return numbers.last(lines[0], spoken) if lines else None


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score one answer, of which the filter has left its number: right when its value is that of any correct response.

    ``exact_match_macro`` is the same verdict with its subtask, MGSM's language. ``unextracted`` counts answers that the
    filter found no number in.
    """
    right = float(results[0] in golds(doc))
    return {
        "exact_match": right,
        "exact_match_macro": (doc["subtask_name"], right),
        "unextracted": float(results[0] == rows.NO_MATCH),
    }
