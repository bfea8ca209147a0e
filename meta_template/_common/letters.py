r"""Extract the letter of an answer to a task with lettered choices, where a simple pattern is not enough.

An answer announces its letter after some reasoning ("The best answer is C."), or completes this sentence from the
prompt (" C."). The letter may be decorated: ``**C**``, ``(C)``, ``"C"``, `` `C` ``, ``\(C\)``, ``\boxed{\text{C}}``,
"option C". It must be separate and not a word itself:

- ``D2``, ``D-glucose``, ``C_3`` and ``I'm`` only begin with a letter.
- In "a proton", "A resposta" and "I think" it is an article or a pronoun. In "A because" the sentence goes on about a
  choice, so it is a letter.
- "A or B" names two letters, which is no answer.

The filters have lm-eval's interface: for each doc's outputs they return a letter or `rows.NO_MATCH`.
"""

import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")

# Words for a choice in the languages of the multilingual tasks: en, pt, es, fr, it, de, hi, th.
_NOUNS = (
    r"answer|option|choice|letter|completion|resposta|alternativa|op[çc][ãa]o|letra|respuesta|opci[óo]n|r[ée]ponse|"
    r"lettre|risposta|opzione|lettera|alternative|Antwort|Buchstabe|Möglichkeit|उत्तर|जवाब|विकल्प|คำตอบ|ตัวเลือก|ข้อ"
)
# Words that continue a sentence about the choice just named.
_NEXT_WORDS = (
    r"is|because|since|as|for|and|or|but|due|with|porque|pois|já|é|e|ou|es|est|car|parce|puisque|et|pues|ya|y|è|perché|"
    r"poiché|ist|weil|denn|da|und|oder|है|क्योंकि|और|या|เพราะ|คือ|เป็น|และ|หรือ"
)
_NEGATIONS = r"not|n't|never|nicht|kein|keine|no|non|pas|nunca|não|नहीं|ไม่"

# Marks, TeX wrappers and words for a choice may separate an announcement from its letter. Every repetition is bounded,
# so extraction from any answer is fast.
_LEAD = (
    r"(?:[\s:*_~$`\"'\u2018-\u201f\u2039\u203a«»<>\[\](){}|=\u2026\u2013\u2014\uff1a\u300c\u300e\u3010-]|\.{2,}"
    r"|\\[()\[\],;: ]|\\(?:boxed|fbox|text|textbf|textit|textrm|textsf|mathbf|mathrm|mathsf|bf|rm)(?![A-Za-z])"
    rf"|(?i:(?:(?:the|la|le|l['\u2019]|lo|a|die|der)\s*)?(?:{_NOUNS})(?![^\W_]))){{0,60}}"
)
_CLOSING = r"[\s*_~$`\"'\u2018-\u201f\u2039\u203a«»<>\[\](){}|\\.,;:]"
# Not the first part of a word, of a symbol with an index or of a contraction.
_ALONE = r"(?![^\W_])(?![-+'\u2019\u2010\u2011^_][^\W_])(?![_^]\{)(?!\+)"
_NO_WORD = rf"(?![ \t]+(?!(?:{_NEXT_WORDS})(?![^\W_]))[^\W\d_])"
_NO_SECOND = (
    r"(?![\s*_`\"'\u201d\u2019»)\]},]{0,10}(?:or|and|ou|oder|und|o|et|y|e|या|और|หรือ|และ|&|/)[\s*_`\"'\u201c\u2018«(\[{]{0,10}"
    rf"(?:[A-HJ]|I{_NO_WORD})(?![^\W_])(?!['\u2019]))"
)
_LETTER = rf"([B-HJ]{_ALONE}|[AI]{_ALONE}{_NO_WORD}|[a-j]{_ALONE}{_NO_WORD}){_NO_SECOND}"

_BEST_ANSWER = re.compile(r"(?i:best\s+answer\s+is)")
_BEST = re.compile(rf"(?i:best\s+answer\s+is){_LEAD}{_LETTER}")
_ANSWER = re.compile(
    rf"(?i:\banswer(?:\s+(?:choice|letter|option))?[*_]*\s*(?:is|:|\uff1a|(?:must|would|should) be)){_LEAD}{_LETTER}"
)
_IS_CORRECT = re.compile(
    rf"(?<![^\W_])([A-J]){_ALONE}{_CLOSING}{{0,10}}(?i:is\s+(?:the\s+|indeed\s+)*(?:correct|right|best))(?![^\W_])"
)
_BOXED = re.compile(rf"\\(?:boxed|fbox)\s*\{{{_LEAD}([A-J]){_ALONE}[\s.)\]}}]{{0,10}}\}}")
_ONLY_LETTER = re.compile(rf"{_LEAD}([A-J]){_ALONE}{_CLOSING}{{0,20}}")
_ANSWER_IS = re.compile(rf"(?i:answer\s+is){_LEAD}{_LETTER}")

_START = re.compile(rf"{_LEAD}{_LETTER}")
_PLAIN_START = re.compile(rf"\s*([BCD]{_ALONE}(?!_)|A{_ALONE}(?!_){_NO_WORD}){_NO_SECOND}")
# Matches "A resposta correta é a B" and "सही उत्तर B है" but not "a resposta não é B".
_GAP = rf"(?i:{_NOUNS})(?:(?!(?<![^\W_])(?i:{_NEGATIONS})(?![^\W_]))[^\n.!?]){{0,40}}?(?<![^\W_])"
_SENTENCE = re.compile(rf"{_GAP}([B-HJ]{_ALONE}|[AI]{_ALONE}{_NO_WORD}){_NO_SECOND}")
_PLAIN_SENTENCE = re.compile(rf"{_GAP}(?<=[\s:])([BCD]{_ALONE}(?!_)|A{_ALONE}(?!_){_NO_WORD}){_NO_SECOND}")


# Extraction


def last_announced(output: str) -> str | None:
    """Return the letter after the last "best answer is", with any decoration.

    Without these words the first of these places with a letter counts:

    1. after the last "answer is" or "Answer:"
    2. in the last "C is correct"
    3. in the last box
    4. the last line, if it is only a letter
    """
    # Most answers have these very words, which are found without a look at what stands before them.
    usual = output.rfind("best answer is")
    if usual >= 0 and (letter := _find_last(_BEST, output, usual)):
        return letter
    if _BEST_ANSWER.search(output):
        return _find_last(_BEST, output)
    match = _find_last(_ANSWER, output) or _find_last(_IS_CORRECT, output) or _find_last(_BOXED, output)
    if match:
        return match
    alone = _ONLY_LETTER.fullmatch(output.strip().rpartition("\n")[2].strip())
    return alone[1] if alone else None


def first_announced(output: str) -> str | None:
    """Return the letter after the first "answer is", with any decoration."""
    match = _ANSWER_IS.search(output)
    return match[1] if match else None


def following(output: str) -> str | None:
    """Return the letter at the start of an answer, with any decoration.

    Otherwise return that of the first sentence that announces a letter, in any of eight languages.
    """
    match = _START.match(output) or _SENTENCE.search(output)
    return match[1] if match else None


def following_plainly(output: str) -> str | None:
    """Return the letter as `following` does, but only A to D and without marks before it."""
    match = _PLAIN_START.match(output) or _PLAIN_SENTENCE.search(output)
    return match[1] if match else None


def _find_last(pattern: re.Pattern, output: str, start: int = 0) -> str | None:
    match = None
    for match in pattern.finditer(output, start):  # noqa: B007 (the last one is what is asked for)
        pass
    return match[1] if match else None


# Filters


def _filter(read: Callable[[str], str | None]) -> Callable[[list[list[str]], list[dict]], list[list[str]]]:
    return lambda resps, docs: rows.each(resps, docs, lambda output, _: read(output))


announced = _filter(last_announced)  # flexible-extract of an answer with reasoning
announced_first = _filter(first_announced)  # flexible-extract of a base model, which may continue with new questions
follows = _filter(following)  # flexible-extract if the prompt ends within the sentence
follows_plainly = _filter(following_plainly)  # strict-match if the prompt ends within the sentence
