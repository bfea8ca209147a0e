"""A model without weights whose greedy answers, near ties and faults are known: for `load.py` and the tests.

Its tokens are the bytes of `tests/helpers/small_model.py`: a letter of ASCII has the number 2 and more. The likeliest
next letter follows from the prompt and the words before. At some words two letters are nearly as likely (`TIE` nats): a
full server takes the second at a share of them, as rounding does, and goes on with other words. What no model would
write there is `FAR` nats below.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

WORDS = (
    "river", "stone", "paper", "light", "metal", "glass", "ocean", "winter", "market", "garden", "bridge", "window",
    "silver", "forest", "yellow", "letter", "number", "circle", "motion", "planet", "signal", "branch", "summer",
    "little", "heavy", "narrow", "bright", "silent", "common", "simple", "answer", "reason",
)  # fmt: skip
WORDS_OF_ANSWER = 10
TIE, FAR = 0.2, 9.0
LETTERS = "ABCDEFGHIJ"


def _draw(*parts: object) -> int:
    return int(hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12], 16)


@dataclass(frozen=True)
class Model:
    """A model.

    Args:
        tied: The share of words at which two are nearly as likely.
        right: The probability of the letter ``gold`` at the end.
    """

    tied: float = 0.02
    right: float = 0.7

    @functools.lru_cache(maxsize=16384)  # noqa: B019 (models are few, and equal ones share it)
    def find_words(self, prompt: str, before: tuple[str, ...]) -> list[str]:
        """The likeliest next word, and a second one where it is nearly as likely; none at the end."""
        place = len(before)
        if place >= WORDS_OF_ANSWER + 5:
            return []
        if place >= WORDS_OF_ANSWER:
            return [f"The best answer is {self._choose_letter(prompt, before)}.".split()[place - WORDS_OF_ANSWER]]
        number = _draw(prompt, list(before[-3:]), place)
        first = WORDS[number % len(WORDS)]
        if _draw("tie", prompt, list(before[-3:]), place) % 10_000 >= 10_000 * self.tied:
            return [first]
        # The second begins with another letter.
        return [first, next(word for word in (*WORDS[number % 7 :], *WORDS) if word[0] != first[0])]

    def _choose_letter(self, prompt: str, before: Sequence[str]) -> str:
        words = list(before[:WORDS_OF_ANSWER])
        gold = self.find_gold(prompt)
        return gold if _draw("right", prompt, words) % 1000 < 1000 * self.right else LETTERS[_draw(words) % 10]

    def find_gold(self, prompt: str) -> str:
        """The right letter."""
        return LETTERS[_draw("gold", prompt) % 10]

    def write(self, prompt: str, rng: random.Random | None = None, second: float = 0.0) -> str:
        """The greedy answer. A full server takes the second word with the probability ``second`` where two are tied."""
        words: list[str] = []
        while choices := self.find_words(prompt, tuple(words)):
            takes_second = len(choices) > 1 and rng is not None and rng.random() < second
            words.append(choices[takes_second])
        return " ".join(words)

    def score(self, prompt: str, text: str) -> list[tuple[float, str]]:
        """For each letter of a text: how far below the likeliest one it is, nats, and the likeliest letter."""
        places: list[tuple[float, str]] = []
        words, part = [], ""
        choices = [word + " " for word in self.find_words(prompt, ())]
        for letter in text:
            fitting = [word for word in choices if word.startswith(part)]
            nexts = [word[len(part)] for word in fitting if len(part) < len(word)] or ["\n"]
            if letter not in nexts:
                places.append((FAR, nexts[0]))
            else:
                places.append((TIE if letter != nexts[0] else 0.0, nexts[0]))
            part += letter
            if letter == " ":
                words.append(part.strip())
                choices, part = [word + " " for word in self.find_words(prompt, tuple(words))], ""
        return places
