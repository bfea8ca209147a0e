"""Extract and score the number that answers a question of GSM8K or MGSM.

Answers are compared by value (``_common/numbers.py``). Meta lists several spellings of a gold: 18, 18., 18.0, 18.00.
"""

import re
import unicodedata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, numbers = load.module(".._common.rows"), load.module(".._common.numbers")
macro_average = rows.macro_average

# MGSM's prompts ask for this word before the answer.
ANSWER_WORDS = {
    "bn": "উত্তর", "de": "Antwort", "en": "Answer", "es": "Respuesta", "fr": "Réponse", "ja": "答え", "ru": "Ответ",
    "sw": "Jibu", "te": "సమాధానం", "th": "คำตอบ", "zh": "答案",
}  # fmt: skip

# A subtask may be named by its language.
_NAMES = {
    "bengali": "bn", "german": "de", "english": "en", "spanish": "es", "french": "fr", "japanese": "ja",
    "russian": "ru", "swahili": "sw", "telugu": "te", "thai": "th", "chinese": "zh",
}  # fmt: skip

# The end of a label: a colon of any width, or Bengali's visarga, which people type instead.
_COLON = "[:\uff1a\ufe55\u0983]"
# Between the answer word and its colon: a few words ("Respuesta final:"), emphasis, quotation marks.
_REST_OF_LABEL = "[^\\n\\d.,;!?\u0964\u3001\u3002\uff0c:\uff1a\ufe55\u0983]{0,30}"


# A minus before the first digit, but not that of 7-5.
_MINUS = re.compile(r"^[^\d]*?(?<![\w)\]%])[-\u2212\u2013] ?(?:\\?[$€£])?\.?\d")
_IN_DOLLARS = re.compile(r"\$([^$]*)\$")
_DIGITS = re.compile(r"\d|(?<![A-Za-z])\.(?=\d)")

# Docs


def make_doc(row: dict) -> dict:
    """Make a doc with the common columns.

    Raises:
        ValueError: No correct response is a number, so no answer could be right.
    """
    doc = rows.make_doc(row)
    if not golds(doc):
        raise rows.refused(row, f"none of the correct responses {doc['answers']} is a number")
    return doc


process_docs = rows.docs_by(make_doc)


def golds(doc: dict) -> set[str]:
    """Return the values of the correct responses."""
    return {value for value in map(numbers.whole, doc["answers"]) if value is not None}


def language(doc: dict) -> str | None:
    """Return the code of the language at the end of a subtask's name (``mgsm.de``, ``mgsm.german``), or None."""
    last = re.split(r"[^a-z]+", (doc["subtask_name"] or "").lower())[-1]
    code = _NAMES.get(last, last)
    return code if code in ANSWER_WORDS else None


# Filters: for each output they return a plain number or `rows.NO_MATCH`.


def after_final_answer(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Extract the number after the last "The final answer is", the words that GSM8K's prompt asks for."""
    return rows.each(resps, docs, lambda output, _: final_answer(output))


def after_answer_word(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Extract the number after the last "Answer:" in the doc's language, as MGSM's prompts ask for."""
    return rows.each(resps, docs, lambda output, doc: labelled(output, language(doc)))


def last_number(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Extract the last number of the output."""
    return rows.each(resps, docs, lambda output, doc: numbers.last(output, language(doc)))


def final_answer(output: str) -> str | None:
    """Return the number in the rest of the line after the last "final answer is", in any case, or None."""
    starts = [match.end() for match in re.finditer(r"(?i:final answer is)(?:\s*:\s*|\s+)", output)]
    return joined(output[starts[-1] :].partition("\n")[0]) if starts else None


def joined(text: str) -> str | None:
    r"""Join all digits of an answer to a number, as Meta does: "30 pens and 12 cups" is 3012, "7/4" is 74.

    Meta first normalises the text as an answer of MATH. It takes the right side of "=" and the text between two dollar
    signs. It reads a half as ``\frac{1}{2}``, whose digits are 12.

    Sources: the rule for "=" is Minerva's. The others explain eleven recorded answers, which a public script lists
    because Meta did not read their last number. None of the eleven has a minus or another decimal, so those are kept.
    """
    text = text.rpartition("=")[2]
    between = _IN_DOLLARS.search(text)
    text = (between[1] if between else text).replace(",", "")
    if text.strip().rstrip(".") == "0.5":
        return "12"
    digits = "".join(_DIGITS.findall(text))
    return numbers.whole(f"{'-' if _MINUS.match(text) else ''}{digits}") if digits else None


def labelled(output: str, spoken: str | None) -> str | None:
    """Return the last number on the line of the last label, or None. A label is the answer word and a colon.

    If nothing follows the colon, the next line counts. The word and the number may be emphasised, and a few words may
    come before the colon ("Respuesta final:").

    Without a label the last number in the line after the last answer word counts ("答えは 18"). simple-evals, the
    source of the prompts, asks for no colon. If the language is unknown, the answer word of any language counts.
    """
    words = "|".join([ANSWER_WORDS[spoken]] if spoken else ANSWER_WORDS.values())
    text = unicodedata.normalize("NFC", output)
    starts = [match.end() for match in re.finditer(rf"(?i:{words}){_REST_OF_LABEL}{_COLON}", text)]
    if not starts:
        ends = [match.end() for match in re.finditer(rf"(?i:{words})", text)]
        # A dash right after the word is no minus.
        rest = re.sub(r"^[-\u2013\u2014]", " ", text[ends[-1] :].partition("\n")[0]) if ends else ""
        return numbers.last(rest, spoken)
    lines = [line for line in text[starts[-1] :].splitlines() if re.search(r"\w", line)]
    return numbers.last(lines[0], spoken) if lines else None


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    """Score a filtered answer: it is right if its value is that of any correct response.

    ``exact_match_macro`` is the same with its subtask, which is MGSM's language. ``unextracted`` counts answers in
    which the filter found no number.
    """
    right = float(results[0] in golds(doc))
    return {
        "exact_match": right,
        "exact_match_macro": (doc["subtask_name"], right),
        "unextracted": float(results[0] == rows.NO_MATCH),
    }
