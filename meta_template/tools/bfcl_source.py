"""Parse calls in Java and JavaScript, ``Klass.method(name=value, …)``, without running them.

BFCL parses them with tree-sitter and keeps the text of each value. It refuses a text that is not a complete program of
the language. This module reads the expressions that arguments need: literals, names, calls, ``new``, arrays, objects,
operators and lambdas. The body of a function may be any text with matching brackets.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .bfcl_tokens import CLOSING, SourceError, Tokens
from .expressions import MAX_LENGTH

MAX_DEPTH = 48  # of nested expressions
MAX_LEVELS = 3 * MAX_DEPTH  # of their parts: an expression has two at least

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Source:
    """A call: its function with the text before the dot, and the text of each named argument.

    ``loose``: whether a positional argument is a name or a class, or ``true`` in JavaScript. BFCL never accepts it.
    """

    function: str
    arguments: dict[str, str]
    loose: bool


@dataclass(frozen=True)
class _Expression:
    """An expression: its kind, its place, and its text as BFCL writes it inside another expression."""

    kind: str
    start: int
    end: int
    text: str
    left: "_Expression | None" = None  # of an assignment
    right: "_Expression | None" = None
    name: str = ""  # of a call
    given: "tuple[_Expression, ...]" = ()


_ASSIGN = frozenset(
    ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", ">>>=", "**=", "&&=", "||=", "??=")
)
_BINARY = frozenset(
    ("+", "-", "*", "/", "%", "**", "==", "!=", "===", "!==", "<", ">", "<=", ">=", "&&", "||", "??", "&", "|", "^",
     "<<", ">>", ">>>", "instanceof", "in")
)  # fmt: skip
_UNARY = {"Java": frozenset("+-!~") | {"++", "--"}}
_UNARY["JavaScript"] = _UNARY["Java"] | {"typeof", "void", "delete", "await"}
_STATEMENTS = frozenset(
    ("if", "else", "for", "while", "do", "return", "switch", "case", "try", "catch", "throw", "import")
)
_WORDS = {"Java": _STATEMENTS | {"class", "package"}, "JavaScript": _STATEMENTS | {"var", "let", "const"}}


def read_call(program: str, language: str) -> Source:
    """Parse a program as a call.

    Raises:
        SourceError: It is not a call of the language, or has an argument twice.
    """
    if len(program) > MAX_LENGTH:
        raise SourceError("too long")
    reader = _Reader(program, language)
    try:
        call = reader.program()
    except IndexError:
        raise SourceError("cut off") from None
    arguments: dict[str, str] = {}
    loose = False
    for given in call.given:
        if given.kind == "assignment":
            name = program[given.left.start : given.left.end]
            if name in arguments:
                raise SourceError("an argument twice")
            arguments[name] = reader.value(given.right)
        elif given.kind in ("name", "class") or (given.kind == "true" and language == "JavaScript"):
            loose = True
    return Source(call.name, arguments, loose)


def _limited(read: Callable[["_Reader"], _Read]) -> Callable[["_Reader"], _Read]:
    """Count the levels of a method that may call itself. Other than the stack, they are the same in every Python."""

    @functools.wraps(read)
    def limited(self: "_Reader") -> _Read:
        self.levels += 1
        if self.levels > MAX_LEVELS:
            raise SourceError("too deep")
        result = read(self)
        self.levels -= 1
        return result

    return limited


class _Reader(Tokens):
    """A parser of expressions, which start at the next token."""

    def program(self) -> _Expression:
        wrapped = 0
        while self.java and self.peek(wrapped) in ("(", "["):  # in Java the call may be in brackets
            wrapped += 1
        self.at = wrapped
        call = self.expression()
        for at in reversed(range(wrapped)):
            self.take(CLOSING[self.tokens[at][1]])
        while self.at < len(self.tokens):
            self.take(";")
        if call.kind != "call":
            raise SourceError("no call")
        return call

    def value(self, expression: _Expression) -> str:
        """Return the text of an argument's value: without blanks between parts in Java, and a string without quotes."""
        raw = self.program_text[expression.start : expression.end]
        if self.java:
            return raw[1:-1] if expression.kind == "text" else expression.text
        quoted = (raw[:1] == raw[-1:] == '"') or (raw[:1] == raw[-1:] == "'")
        return raw[1:-1] if quoted else raw

    def expression(self) -> _Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SourceError("too deep")
        left = self.ternary()
        if self.peek() in _ASSIGN and left.kind in ("name", "member", "list", "object"):
            _, mark, *_ = self.take()
            right = self.expression()
            kind = "assignment" if mark == "=" or self.java else "other"
            left = _Expression(kind, left.start, right.end, left.text + mark + right.text, left, right)
        self.depth -= 1
        return left

    def ternary(self) -> _Expression:
        condition = self.binary()
        if self.peek() != "?":
            return condition
        self.take("?")
        middle = self.expression()
        self.take(":")
        last = self.expression()
        return _Expression("other", condition.start, last.end, f"{condition.text}?{middle.text}:{last.text}")

    def binary(self) -> _Expression:
        left = self.unary()
        while self.peek() in _BINARY and self.kind() in ("mark", "name"):
            _, mark, *_ = self.take()
            right = self.unary()
            left = _Expression("other", left.start, right.end, left.text + mark + right.text)
        return left

    @_limited
    def unary(self) -> _Expression:
        if self.peek() in _UNARY[self.language] and self.kind() in ("mark", "name"):
            _, mark, start, _ = self.take()
            operand = self.unary()
            return _Expression("other", start, operand.end, mark + operand.text)
        return self.postfix(self.primary())

    def postfix(self, expression: _Expression) -> _Expression:
        while (mark := self.peek()) in (".", "?.", "[", "(", "++", "--", "::") or (
            self.kind() == "template" and not self.java
        ):
            if mark in (".", "?.", "::"):
                self.take()
                if mark == "?." and self.peek() in ("(", "["):
                    continue
                kind, name, _, end = self.take()
                if kind != "name":
                    raise SourceError("no name after a dot")
                kind = "class" if name == "class" and self.java else "member"
                expression = _Expression(kind, expression.start, end, expression.text + mark + name)
            elif mark == "[":
                self.take()
                index = self.expression()
                end = self.take("]")[3]
                expression = _Expression("member", expression.start, end, f"{expression.text}[{index.text}]")
            elif mark == "(":
                if self.java and expression.kind not in ("name", "member"):
                    raise SourceError("a call of what is no method")
                given, end = self.listed("(")
                raw = self.program_text[expression.start : end]
                name = self.program_text[expression.start : expression.end]
                expression = _Expression("call", expression.start, end, raw, name=name, given=given)
            else:
                end = self.take()[3]
                expression = _Expression("other", expression.start, end, expression.text + mark)
        return expression

    def listed(self, opening: str) -> tuple[tuple[_Expression, ...], int]:
        """Read expressions between brackets, separated by commas. Return them and the place after the bracket."""
        self.take(opening)
        items = []
        while self.peek() != CLOSING[opening]:
            if self.peek() == "..." and not self.java:
                self.take()
            if self.peek() == "," and opening == "[" and not self.java:
                self.take()
                continue
            items.append(self.expression())
            if self.peek() != CLOSING[opening]:
                self.take(",")
                if opening == "(" and self.peek() == ")" and self.java:
                    raise SourceError("a comma at the end")
        return tuple(items), self.take(CLOSING[opening])[3]

    @_limited
    def primary(self) -> _Expression:
        kind, text, start, end = self.tokens[self.at]
        if kind in ("text", "number", "template"):
            self.take()
            return _Expression(kind, start, end, text)
        if kind == "name":
            return self.named(text, start, end)
        if text == "(":
            return self.parenthesised(start)
        if text == "[" and not self.java:
            _, end = self.listed("[")
            return _Expression("list", start, end, text)
        if text == "{" and not self.java:
            return _Expression("object", start, self.object(), text)
        raise SourceError(f"{text!r} where a value should stand")

    def named(self, text: str, start: int, end: int) -> _Expression:
        if text in _WORDS[self.language]:
            raise SourceError(f"{text!r} is no value")
        if self.peek(1) == self.arrow:
            self.take()
            return self.function(start)
        if text == "new":
            return self.created(start)
        if not self.java and text in ("function", "class", "async"):
            while self.peek() not in ("{", "", "=>"):
                self.balanced()
            if self.peek() == "=>":
                return self.function(start)
            return _Expression("other", start, self.balanced(), "")
        self.take()
        kind = text if text in ("true", "false", "null", "undefined", "this", "super") else "name"
        return _Expression("true" if kind == "true" else "other" if kind != "name" else "name", start, end, text)

    def function(self, start: int) -> _Expression:
        """Read a lambda, starting at its arrow."""
        self.take()
        end = self.balanced() if self.peek() == "{" else self.expression().end
        return _Expression("other", start, end, re.sub(r"\s+", "", self.program_text[start:end]))

    def parenthesised(self, start: int) -> _Expression:
        at = self.at
        self.balanced()
        if self.peek() == self.arrow:
            return self.function(start)
        self.at = at
        self.take("(")
        inner = self.expression()
        while self.peek() == ",":
            if self.java:
                raise SourceError("a comma between values")
            self.take()
            inner = self.expression()
        end = self.take(")")[3]
        expression = _Expression("other", start, end, f"({inner.text})")
        if (
            self.java
            and inner.kind in ("name", "member")
            and ((self.kind() in ("name", "text", "number") and self.peek() not in _BINARY) or self.peek() == "(")
        ):
            cast = self.unary()
            return _Expression("other", start, cast.end, expression.text + cast.text)
        return expression

    def created(self, start: int) -> _Expression:
        """Read ``new`` with its object or array. For a Java object BFCL keeps class and arguments, but not a body."""
        self.take("new")
        if not self.java:
            constructor = self.primary()
            while self.peek() == ".":
                self.take()
                constructor = _Expression("member", constructor.start, self.take()[3], "")
            end = self.listed("(")[1] if self.peek() == "(" else constructor.end
            return _Expression("other", start, end, "")
        name = self.type_name()
        if self.peek() == "(":
            given, end = self.listed("(")
            if self.peek() == "{":
                end = self.balanced()
            return _Expression("other", start, end, f"new {name}({', '.join(item.text for item in given)})")
        self.take("[")
        if self.peek() != "]":  # BFCL does not read an array that only has a length
            raise SourceError("an array without values")
        self.take("]")
        while self.peek() == "[":
            self.balanced()
        text, end = self.values()
        return _Expression("other", start, end, f"new {name}[]{text}")

    @_limited
    def type_name(self) -> str:
        kind, name, *_ = self.take()
        if kind != "name":
            raise SourceError("no type")
        while self.peek() in (".", "<"):
            if self.peek() == ".":
                self.take()
                name += "." + self.take()[1]
                continue
            self.take()
            inner = []
            while self.peek() not in (">", ">>"):
                inner.append("?" if self.peek() == "?" and self.take() else self.type_name())
                while self.peek() == "[":
                    self.take()
                    self.take("]")
                    inner[-1] += "[]"
                if self.peek() == ",":
                    self.take()
            if self.peek() == ">>":  # the ends of this type and of that around it
                kind, _, start, end = self.tokens[self.at]
                self.tokens[self.at : self.at + 1] = [(kind, ">", start, start + 1), (kind, ">", start + 1, end)]
            self.take(">")
            name += f"<{','.join(inner)}>"
        return name

    @_limited
    def values(self) -> tuple[str, int]:
        """Read the values of an array in braces. Return their text and the place after the brace."""
        self.take("{")
        texts = []
        while self.peek() != "}":
            texts.append(self.values()[0] if self.peek() == "{" else self.expression().text)
            if self.peek() != "}":
                self.take(",")
        return f"{{{','.join(texts)}}}", self.take("}")[3]

    def object(self) -> int:
        """Read JavaScript's ``{key: value, …}`` and return the place after it."""
        self.take("{")
        while self.peek() != "}":
            if self.peek() == "...":
                self.take()
                self.expression()
            elif self.peek() == "[":
                self.balanced()
                self.take(":")
                self.expression()
            else:
                if self.kind() not in ("name", "text", "number"):
                    raise SourceError("no key")
                name = self.take()[1]
                if self.peek() == ":":
                    self.take()
                    self.expression()
                elif self.peek() == "(":
                    self.balanced()
                    self.balanced()
                elif self.peek() not in (",", "}") or name[:1] in "\"'0123456789":
                    raise SourceError("no value of a key")
            if self.peek() != "}":
                self.take(",")
        return self.take("}")[3]
