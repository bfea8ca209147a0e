"""Grade a chat answer by its text."""

from typing import Any


def exact_match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Score ``exact_match``: whether the text equals one of ``golds``, without white space at the ends."""
    return {"exact_match": float(results[0].strip() in [gold.strip() for gold in doc["golds"]])}
