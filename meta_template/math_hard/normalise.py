r"""Normalise answers for comparison: remove units and formatting, and write each thing in a single way.

The rules are those of Minerva (Lewkowycz et al. 2022, "Solving Quantitative Reasoning Problems with Language Models",
appendix D), which Meta's recipe uses. Its plain replacements corrupt some answers, so these rules differ:

- Unit words are removed only as words after a value, with their exponent. Minerva also removed ``ft`` from ``\left``,
  and left ``^2`` of ``cm^2``.
- The article ``a`` is removed only before a word. Minerva made ``+b`` of ``a + b``.
- Shorthand fractions and roots follow TeX's rules: ``\frac1{72}``, ``\sqrt[3]2``.
- A comma between digits is removed only if it groups thousands. Minerva made ``01`` of ``0,1``.
- ``\left``, ``\right``, spacing and style commands are removed, because they have no meaning.
"""

import functools
import re

# A plain word after a value is a unit if it is listed here, or has at least four letters that are not in alphabetical
# sequence: 4abcd is a product.
_GLUED_UNITS = "cm|mm|km|kg|ft|mph|ml|min|sec|th|st|nd|rd"  # also without a space: 5cm
_SHORT_UNITS = (
    f"{_GLUED_UNITS}|cc|dm|gal|gm|gms|hr|hrs|in|kmh|kph|lb|lbs|mg|mi|mins|oz|rad|rpm|secs|sq|sue|yd|yds|yr|yrs"
)
_WORD = r"(?!(?:a?b?c?d?e?f?|p?q?r?s?t?|u?v?w?x?y?z?)(?![A-Za-z]))[A-Za-z]{4,}"
_POWER = r"(?: ?\^ ?(?:[23]|\{ ?[23] ?\}))?"  # of a unit: cm^2
_MORE_WORDS = rf"(?:[ /-]+[A-Za-z][A-Za-z.'/-]*{_POWER})*"
_UNITS = rf"(?: (?:{_SHORT_UNITS})|(?:{_GLUED_UNITS})| ?{_WORD})(?![A-Za-z]){_POWER}{_MORE_WORDS}\.?"
_CLOCK = r"[ap]\.? ?m(?![A-Za-z])"  # not a unit: 9 a.m. is not 9 p.m.

_UNICODE = str.maketrans(
    {
        "π": r"\pi ",
        "∞": r"\infty ",
        "×": r"\times ",  # noqa: RUF001
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "−": "-",  # noqa: RUF001
        "–": "-",  # noqa: RUF001
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∪": r"\cup ",  # noqa: RUF001
        "∩": r"\cap ",
        "∈": r"\in ",
        "±": r"\pm ",
        "°": r"^\circ ",
        "²": "^2",
        "³": "^3",
        "θ": r"\theta ",
        "½": r"\frac{1}{2}",
    }
)
_SPELLINGS = {
    r"\dfrac": r"\frac",
    r"\tfrac": r"\frac",
    r"\cfrac": r"\frac",
    r"\dbinom": r"\binom",
    r"\tbinom": r"\binom",
    r"\leq": r"\le",
    r"\leqslant": r"\le",
    r"\geq": r"\ge",
    r"\geqslant": r"\ge",
    r"\neq": r"\ne",
    r"\lt": "<",
    r"\gt": ">",
    r"\lbrace": r"\{",
    r"\rbrace": r"\}",
    r"\lbrack": "[",
    r"\rbrack": "]",
    r"\lvert": "|",
    r"\rvert": "|",
    r"\vert": "|",
    r"\mid": "|",
    r"\varnothing": r"\emptyset",
    r"\to": r"\rightarrow",
    r"\mbox": r"\text",
    r"\textrm": r"\text",
    r"\textit": r"\text",
    r"\textbf": r"\text",
    r"\textnormal": r"\text",
    r"\mathrm": r"\text",
    r"\mathit": r"\text",
    r"\mathbf": r"\text",
    r"\mathsf": r"\text",
    r"\operatorname": r"\text",
    r"\hbox": r"\text",
    r"\colon": ":",
    r"\degree": r"^\circ ",
    r"\textdegree": r"^\circ ",
}
_STYLE = "displaystyle|textstyle|scriptstyle|left|right|[bB]igg?[lr]?|bf|rm|it|limits"

# Applied in order to text with single spaces. Most removed text leaves a space, so its neighbours stay separate.
_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"\\(?:{_STYLE})(?![A-Za-z]) ?", " "),
        (r"√ ?\(([^()]*)\)|√ ?(\d+|[A-Za-z])", r"\\sqrt{\1\2}"),
        (r"(?<=\d) ?(?:, ?\\! ?|\{ ?(?:,|\\[,;: ])? ?\} ?)(?=\d{3}(?!\d))", ""),  # groups of thousands
        (r"(?<!\\)\\(?:[,;:! ]|(?:q?quad|enspace|thinspace)(?![A-Za-z]))|~", " "),
        (r"\.\$", "$"),  # the full stop that ends a sentence in a formula
        (r"(?<!\\)\\\$", " "),  # dollars
        (r"(?<!\\)\\%|(?<=\d)%|(?<=\d )%", " "),  # removed like a unit
        (r",? ?\\text ?\{ ?,? ?(?:and|or) ?\}", ","),
        (r"(?<=[\d)\]}A-Za-z$]),? (?:and|or)(?= ?[-\d(\[\\$A-Za-z])", ","),
        (r"\^ ?(?:\\circ(?![A-Za-z])|\{ ?\^? ?\\circ ?\})", "°"),
        (r"° ?(?:\\text ?\{ ?[CF] ?\}|[CF](?![A-Za-z]))", "°"),  # of a temperature
        (r"\\[lcd]?dots(?![A-Za-z])|\"", " "),
        (r"\^? ?\{? ?\\text ?\{ ?(?:th|st|nd|rd) ?\} ?\}?", " "),
        # \text{237 cm} becomes 237 \text{cm}.
        (
            rf"(?:^|(?<=[=,$])) ?\\text ?\{{ ?(-?[\d.,]*\d) (?!{_CLOCK})((?:[A-Za-z .,/'-]|{_POWER})+)\}}",
            r"\1 \\text{\2}",
        ),
        # \text{} after a value is its unit, except a capital letter or a time. Before a value it is its name.
        (
            rf"(?:(?<=[\d)}}\]A-Za-z°])|(?<=[\d)}}\]A-Za-z°]\$)) ?\\text ?\{{(?! ?\(?[A-Z]\)? ?\}})(?! ?{_CLOCK})"
            rf"(?:[A-Za-z .,/'-]|{_POWER})*\}}{_POWER}",
            " ",
        ),
        (r"(?:^|(?<=,)) ?\\text ?\{ ?[A-Za-z][A-Za-z '.:]*\}(?= ?[-\d.$]| ?\\(?:frac|sqrt))", " "),
        (r"(?<![\w\\{])an? (?=[^\W\d_]{2})", " "),  # articles
    )
)
_PLAIN_UNITS = re.compile(rf"(?:(?<=[\d)}}\]°])|(?<=\\pi)){_UNITS}(?= ?(?:$|[,)\]]))")
_MIXED = re.compile(r"(?<![\d./^_}])(\d+) (\d+)/(\d+)(?![\d/.])")
_GROUPED = re.compile(r"(?:[A-Za-z]+=)?[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_ARGUMENT = re.compile(r"(?<=\{)\d{1,3}(?:,\d{3})+(?=\})")
SYMBOL = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_INSIDE = r"(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*\})*"
_INFIX = re.compile(rf"(?<!\\)\{{({_INSIDE}?)\\(over|choose)(?![A-Za-z])({_INSIDE})\}}")
_MOST_INFIX = 40  # of an answer; each is looked for in all of it
_PREFIX = {"over": "frac", "choose": "binom"}
_UNWRAPPED = frozenset((r"\text", r"\boxed", r"\fbox", r"\overline", r"\overrightarrow", r"\vec"))
_ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1}
_ANGLED = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")


def plain(text: str) -> str:
    """Remove white space and the size of brackets and fractions, and put shorthand arguments in braces.

    If two texts are then the same, every grader takes them as equal.
    """
    text = re.sub(r"\\[dt]frac(?![A-Za-z])", r"\\frac", text)
    text = re.sub(r"\\(?:left|right)(?![A-Za-z])|\\[,;:!]", " ", text)
    return re.sub(r"\s+", "", _braced(text, unwrapped=frozenset()))


@functools.lru_cache(maxsize=8192)
def normalise(answer: str) -> str:
    """Return the form in which answers are compared. An answer that would become empty is only stripped."""
    text = " ".join(answer.translate(_UNICODE).split())
    text = re.sub(r"\\[A-Za-z]+", lambda command: _SPELLINGS.get(command[0], command[0]), text)
    for pattern, replacement in _RULES:
        text = " ".join(pattern.sub(replacement, text).split())
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", _prefixed(_formula(text)))
    text = _braced(_PLAIN_UNITS.sub("", text))
    if not _ANGLED.search(text):
        text = text.replace("°", "")
    # A space is kept only if it ends a command: \pi r.
    text = re.sub(r"(\\[A-Za-z]+)\s+(?=[A-Za-z])|\s+", lambda space: f"{space[1]} " if space[1] else "", text)
    text = re.sub(r"_\{([A-Za-z0-9])\}", r"_\1", text)
    text = re.sub(r"\(([0-9A-F]+)\)_(?=\d|\{)", r"\1_", text)  # (1011)_2
    text = re.sub(r"(^|[(\[,{=])\+(?=[\d\\.A-Za-z(])", r"\1", text)  # +\infty
    text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
    text = _GROUPED_ARGUMENT.sub(lambda argument: argument[0].replace(",", ""), text)
    text = text[:-1] if re.search(r"[^.]\.$", text) else text
    return text or answer.strip()


def _formula(text: str) -> str:
    """Return the formula of a text with words around it.

    If the text has no formula, several, or digits outside the formula, only the dollar signs are removed.
    """
    pieces = text.split("$")
    if len(pieces) == 3 and pieces[1].strip() and not re.search(r"\d", pieces[0] + pieces[2]):
        return pieces[1].strip()
    return " ".join(" ".join(pieces).split())


def _prefixed(text: str) -> str:
    r"""Write ``{a\over b}`` as ``{\frac{a}{b}}``, ``{n\choose k}`` likewise, and ``1{1\over 2}`` as a mixed number."""
    if r"\over" not in text and r"\choose" not in text:
        return text
    text = f"{{{text}}}"
    for _ in range(_MOST_INFIX):
        if (match := _INFIX.search(text)) is None:
            break
        prefixed = rf"{{\{_PREFIX[match[2]]}{{{match[1].strip()}}}{{{match[3].strip()}}}}}"
        text = text[: match.start()] + prefixed + text[match.end() :]
    return re.sub(r"(?<=\d) ?\{(\\frac\{\d+\}\{\d+\})\}", r"\1", text[1:-1])


def _braced(text: str, unwrapped: frozenset[str] = _UNWRAPPED) -> str:
    r"""Unwrap ``\text{…}`` and the like, put arguments of fractions and roots in braces, and drop unpaired braces."""
    symbols = SYMBOL.findall(text)
    partner = _partners(symbols)
    before = [""] * len(symbols)
    after = [""] * len(symbols)

    def skip_spaces(index: int) -> int:
        while index < len(symbols) and symbols[index] == " ":
            index += 1
        return index

    def opens(index: int) -> bool:
        return partner.get(index, -1) > index

    for index, symbol in enumerate(list(symbols)):
        if symbol in "{}" and index not in partner:
            symbols[index] = " "
        elif symbol in unwrapped:
            opening = skip_spaces(index + 1)
            if symbol == r"\overline" and re.search(r"[\d.] *$", "".join(symbols[:index])):
                continue  # a repeating decimal
            if opens(opening):
                symbols[index] = symbols[opening] = symbols[partner[opening]] = " "
        elif symbol in _ARGUMENTS:
            place = skip_spaces(index + 1)
            if symbol == r"\sqrt" and symbols[place : place + 1] == ["["] and "]" in symbols[place:]:
                place = symbols.index("]", place) + 1
            for _ in range(_ARGUMENTS[symbol]):
                place = skip_spaces(place)
                if opens(place):
                    place = partner[place] + 1
                elif place < len(symbols) and symbols[place] not in "{}":
                    before[place] += "{"
                    after[place] += "}"
                    place += 1
    return "".join(left + symbol + right for left, symbol, right in zip(before, symbols, after, strict=True))


def _partners(symbols: list[str]) -> dict[int, int]:
    """Return the index of the partner of each paired brace, in both directions."""
    partner: dict[int, int] = {}
    waiting: list[int] = []
    for index, symbol in enumerate(symbols):
        if symbol == "{":
            waiting.append(index)
        elif symbol == "}" and waiting:
            opening = waiting.pop()
            partner[opening], partner[index] = index, opening
    return partner
