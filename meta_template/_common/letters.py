r"""Which letter an answer gives: what the tasks with lettered choices extract where a pattern of one line does not do.

An answer either reasons and then announces its letter ("The best answer is C."), or goes on where the prompt has begun
that sentence (" C."). Behind an announcement the letter may be dressed up: ``**C**``, ``(C)``, ``"C"``, `` `C` ``,
``\(C\)``, ``\boxed{\text{C}}``, "option C". It is the letter only where it stands alone, and is no word itself:

- ``D2``, ``D-glucose``, ``C_3`` and ``I'm`` begin with a letter that is none;
- "a proton", "A resposta", "I think": an article or a pronoun, when a word follows that does not go on about a choice,
  as "A because" does;
- "A or B" names two, which is no answer.

Every filter takes and returns what lm-eval's own do: for each doc's outputs a letter, or the word for no match.
"""

import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")

# What a choice is called in the languages of the multilingual tasks: en, pt, es, fr, it, de, hi, th.
_NOUNS = (
    r"answer|option|choice|letter|completion|resposta|alternativa|op[çc][ãa]o|letra|respuesta|opci[óo]n|r[ée]ponse|"
    r"lettre|risposta|opzione|lettera|alternative|Antwort|Buchstabe|Möglichkeit|उत्तर|जवाब|विकल्प|คำตอบ|ตัวเลือก|ข้อ"
)
# Words that go on about a choice which has just been named.
_GOES_ON = (
    r"is|because|since|as|for|and|or|but|due|with|porque|pois|já|é|e|ou|es|est|car|parce|puisque|et|pues|ya|y|è|perché|"
    r"poiché|ist|weil|denn|da|und|oder|है|क्योंकि|और|या|เพราะ|คือ|เป็น|และ|หรือ"
)
_NOT = r"not|n't|never|nicht|kein|keine|no|non|pas|nunca|não|नहीं|ไม่"

# What may stand between an announcement and its letter: marks, TeX's wrappers, the word for a choice. Every repetition
# has a bound, so that no answer takes long.
_LEAD = (
    r"(?:[\s:*_~$`\"'\u2018-\u201f\u2039\u203a«»<>\[\](){}|=\u2026\u2013\u2014\uff1a\u300c\u300e\u3010-]|\.{2,}"
    r"|\\[()\[\],;: ]|\\(?:boxed|fbox|text|textbf|textit|textrm|textsf|mathbf|mathrm|mathsf|bf|rm)(?![A-Za-z])"
    rf"|(?i:(?:(?:the|la|le|l['\u2019]|lo|a|die|der)\s*)?(?:{_NOUNS})(?![^\W_]))){{0,60}}"
)
_CLOSING = r"[\s*_~$`\"'\u2018-\u201f\u2039\u203a«»<>\[\](){}|\\.,;:]"
# Alone, and not the first part of a word, of a symbol with an index or of a contraction.
_ALONE = r"(?![^\W_])(?![-+'\u2019\u2010\u2011^_][^\W_])(?![_^]\{)(?!\+)"
_NO_WORD = rf"(?![ \t]+(?!(?:{_GOES_ON})(?![^\W_]))[^\W\d_])"
_NOT_TWO = (
    r"(?![\s*_`\"'\u201d\u2019»)\]},]{0,10}(?:or|and|ou|oder|und|o|et|y|e|या|और|หรือ|และ|&|/)[\s*_`\"'\u201c\u2018«(\[{]{0,10}"
    rf"(?:[A-HJ]|I{_NO_WORD})(?![^\W_])(?!['\u2019]))"
)
_LETTER = rf"([B-HJ]{_ALONE}|[AI]{_ALONE}{_NO_WORD}|[a-j]{_ALONE}{_NO_WORD}){_NOT_TWO}"

_BEST_ANSWER = re.compile(r"(?i:best\s+answer\s+is)")
_BEST = re.compile(rf"(?i:best\s+answer\s+is){_LEAD}{_LETTER}")
_ANSWER = re.compile(
    rf"(?i:\banswer(?:\s+(?:choice|letter|option))?[*_]*\s*(?:is|:|\uff1a|(?:must|would|should) be)){_LEAD}{_LETTER}"
)
_CALLED_RIGHT = re.compile(
    rf"(?<![^\W_])([A-J]){_ALONE}{_CLOSING}{{0,10}}(?i:is\s+(?:the\s+|indeed\s+)*(?:correct|right|best))(?![^\W_])"
)
_BOXED = re.compile(rf"\\(?:boxed|fbox)\s*\{{{_LEAD}([A-J]){_ALONE}[\s.)\]}}]{{0,10}}\}}")
_NOTHING_ELSE = re.compile(rf"{_LEAD}([A-J]){_ALONE}{_CLOSING}{{0,20}}")
_ANSWER_IS = re.compile(rf"(?i:answer\s+is){_LEAD}{_LETTER}")

_GOES_ON_WITH = re.compile(rf"{_LEAD}{_LETTER}")
_GOES_ON_PLAINLY = re.compile(rf"\s*([BCD]{_ALONE}(?!_)|A{_ALONE}(?!_){_NO_WORD}){_NOT_TWO}")
# "A resposta correta é a B", "सही उत्तर B है"; not "a resposta não é B".
_GAP = rf"(?i:{_NOUNS})(?:(?!(?<![^\W_])(?i:{_NOT})(?![^\W_]))[^\n.!?]){{0,40}}?(?<![^\W_])"
_SAID = re.compile(rf"{_GAP}([B-HJ]{_ALONE}|[AI]{_ALONE}{_NO_WORD}){_NOT_TWO}")
_SAID_PLAINLY = re.compile(rf"{_GAP}(?<=[\s:])([BCD]{_ALONE}(?!_)|A{_ALONE}(?!_){_NO_WORD}){_NOT_TWO}")


# Readings


def last_announced(output: str) -> str | None:
    """The letter behind the last "best answer is", however it is dressed up.

    An answer without these words gives the letter of its last "answer is" or "Answer:", of its last "C is correct",
    of its last box, or that which is all of its last line.
    """
    if _BEST_ANSWER.search(output):
        return _last(_BEST, output)
    match = _last(_ANSWER, output) or _last(_CALLED_RIGHT, output) or _last(_BOXED, output)
    if match:
        return match
    alone = _NOTHING_ELSE.fullmatch(output.strip().rpartition("\n")[2].strip())
    return alone[1] if alone else None


def first_announced(output: str) -> str | None:
    """The letter behind the first "answer is", however it is dressed up."""
    match = _ANSWER_IS.search(output)
    return match[1] if match else None


def following(output: str) -> str | None:
    """The letter with which an answer begins, however it is dressed up; or that of the sentence which it says anew, in
    any of eight languages."""
    match = _GOES_ON_WITH.match(output) or _SAID.search(output)
    return match[1] if match else None


def following_plainly(output: str) -> str | None:
    """The letter A to D with which an answer begins; or that of the sentence which it says anew, in any of eight
    languages. No marks stand between the sentence and the letter."""
    match = _GOES_ON_PLAINLY.match(output) or _SAID_PLAINLY.search(output)
    return match[1] if match else None


def _last(pattern: re.Pattern, output: str) -> str | None:
    match = None
    for match in pattern.finditer(output):  # noqa: B007 (the last one is what is asked for)
        pass
    return match[1] if match else None


# Filters


def _filter(read: Callable[[str], str | None]) -> Callable[[list[list[str]], list[dict]], list[list[str]]]:
    return lambda resps, docs: rows.each(resps, docs, lambda output, _: read(output))


announced = _filter(last_announced)  # flexible-extract where an answer reasons first
announced_first = _filter(first_announced)  # flexible-extract of a base model, which may go on with its own questions
follows = _filter(following)  # flexible-extract where the prompt ends within the sentence
follows_plainly = _filter(following_plainly)  # strict-match where it does
