"""The tokens of a call in Java or JavaScript."""

import re

CLOSING = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<template>`(?:\\.|[^`\\])*`)
    |(?P<number>0[xXbB][\da-fA-F_]+[lLn]?|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d+)(?:[eE][+-]?\d+)?[fFdDlLn]?)
    |(?P<name>[^\W\d][\w$]*|\$[\w$]*|@[^\W\d]\w*)
    |(?P<mark>\.\.\.|->|=>|::|\?\.|>>>=|<<=|>>=|\*\*=|&&=|\|\|=|\?\?=|===|!==|\*\*|>>>|[-+*/%&|^=!<>]=|&&|\|\||\?\?
        |\+\+|--|<<|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.VERBOSE | re.DOTALL,
)


class SourceError(ValueError):
    """The text is not a call of the language."""


class Tokens:
    """The tokens of a program and the place of the next.

    Reading past the end raises IndexError, because the program was cut off.
    """

    def __init__(self, program: str, language: str) -> None:
        self.program_text, self.java, self.language = program, language == "Java", language
        self.tokens: list[tuple[str, str, int, int]] = []
        at = 0
        while at < len(program):
            match = _TOKEN.match(program, at)
            if match is None or match.end() == at:
                raise SourceError(f"no token at {at}")
            if match.lastgroup:
                if match.lastgroup == "template" and self.java:
                    raise SourceError("a template")
                self.tokens.append((match.lastgroup, match[0], at, match.end()))
            at = match.end()
        self.at, self.depth, self.levels = 0, 0, 0
        self.arrow = "->" if self.java else "=>"

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index][1] if index < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> tuple[str, str, int, int]:
        token = self.tokens[self.at]
        if wanted and token[1] != wanted:
            raise SourceError(f"{token[1]!r} instead of {wanted!r}")
        self.at += 1
        return token

    def balanced(self) -> int:
        """Skip brackets with their content, and return the place after them."""
        open_brackets: list[str] = []
        while True:
            _, text, _, end = self.take()
            if text in CLOSING:
                open_brackets.append(CLOSING[text])
            elif text in ")]}" and (not open_brackets or open_brackets.pop() != text):
                raise SourceError("a bracket that closes nothing")
            if not open_brackets:
                return end
