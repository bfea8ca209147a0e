"""Functions that Ray's workers apply to a row before and after the engine.

They are sent by value, so a cluster needs only vLLM and Ray. Do not import meta-eval here.
"""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Mapping
from typing import Any


def prepare_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Add the sampling parameters, given as JSON in ``wanted``, to a row.

    Rows are stored in Arrow tables. Arrow turns dictionaries with different keys into structs with nulls, and integers
    with missing values into floats; vLLM refuses or crashes on these. A UserDict is stored as an opaque object and
    passes unchanged.
    """
    return {"sampling_params": UserDict(json.loads(row["wanted"]))}


def reduce_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce the engine's answer to columns that every row has, without the log-probabilities of a whole prompt.

    For ``forced`` last tokens, or requested ids, ``choices`` has log-likelihood and is-greedy; for a text it is empty.
    With ``each``, ``places`` has tokens, log-probabilities and ranks.
    """
    reduced: dict[str, Any] = {"seconds": row.get("time_taken_llm"), "choices": []}
    forced = int(row["forced"])
    token_ids = json.loads(row["wanted"]).get("logprob_token_ids")
    if forced:
        ids = [int(token) for token in row["prompt_token_ids"][-forced:]]
        places = [_by_id(place) for place in row["prompt_logprobs"][-forced:]]
        entries = [place[token] for token, place in zip(ids, places, strict=True)]
        if row.get("each"):
            reduced["places"] = [
                [[token, entry["logprob"], entry["rank"]] for token, entry in place.items()] for place in places
            ]
        else:
            total = sum(float(entry["logprob"]) for entry in entries)
            reduced["choices"] = [[total, all(entry["rank"] == 1 for entry in entries)]]
    elif token_ids is not None:
        place, greedy = _by_id(row["logprobs"][0]), int(row["generated_tokens"][0])
        reduced["choices"] = [[float(place[token]["logprob"]), token == greedy] for token in token_ids]
    else:
        reduced["text"] = row["generated_text"]
        reduced["token_ids"] = [int(token) for token in row["generated_tokens"]]
    return {"number": row["number"], "part": row["part"], "ask": row["ask"], "response": json.dumps(reduced)}


def _by_id(place: Mapping[Any, Any]) -> dict[int, Any]:
    """Restore ids. Arrow may have turned them into text, and those of other rows into None."""
    return {int(token): entry for token, entry in place.items() if entry is not None}
