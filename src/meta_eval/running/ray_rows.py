"""What Ray's workers do with a row before and after the engine.

These functions travel to them by value, so that a cluster needs vLLM and Ray, and no meta-eval: nothing of it may be
imported here.
"""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Mapping
from typing import Any


def prepare_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling parameters of a row, which ``wanted`` are as JSON.

    Rows lie together in Arrow's tables. Of dictionaries that do not all have the same names it makes structs with
    holes, and of a whole number that one row lacks a float: vLLM refuses the one and dies of the other. A UserDict it
    takes for an object, and hands it on as it is.
    """
    return {"sampling_params": UserDict(json.loads(row["wanted"]))}


def reduce_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine said of a row, without the log-probabilities of a whole prompt: columns that any row has.

    Of ``forced`` last tokens, or of the ids that were asked for, ``choices`` holds log-likelihood and greedy; of
    a text it is empty. Where ``each`` of them is asked for, ``places`` holds its tokens, log-probabilities and ranks.
    """
    said: dict[str, Any] = {"seconds": row.get("time_taken_llm"), "choices": []}
    forced = int(row["forced"])
    asked = json.loads(row["wanted"]).get("logprob_token_ids")
    if forced:
        ids = [int(token) for token in row["prompt_token_ids"][-forced:]]
        places = [_by_id(place) for place in row["prompt_logprobs"][-forced:]]
        entries = [place[token] for token, place in zip(ids, places, strict=True)]
        if row.get("each"):
            said["places"] = [
                [[token, entry["logprob"], entry["rank"]] for token, entry in place.items()] for place in places
            ]
        else:
            total = sum(float(entry["logprob"]) for entry in entries)
            said["choices"] = [[total, all(entry["rank"] == 1 for entry in entries)]]
    elif asked is not None:
        place, greedy = _by_id(row["logprobs"][0]), int(row["generated_tokens"][0])
        said["choices"] = [[float(place[token]["logprob"]), token == greedy] for token in asked]
    else:
        said["text"] = row["generated_text"]
        said["token_ids"] = [int(token) for token in row["generated_tokens"]]
    return {"number": row["number"], "part": row["part"], "ask": row["ask"], "said": json.dumps(said)}


def _by_id(place: Mapping[Any, Any]) -> dict[int, Any]:
    """Arrow may have made text of the ids, and None of those that stand elsewhere in its table."""
    return {int(token): entry for token, entry in place.items() if entry is not None}
