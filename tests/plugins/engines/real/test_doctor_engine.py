"""doctor on the real vLLM engine, and the canary on set-ups that were broken on purpose; one start of the engine.

META_EVAL_RUNS names a virtual environment with vLLM and what meta-eval needs; .ci/run makes it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from on_engines import ready

pytestmark = pytest.mark.engine

# The engine is in this one process, so that its weights can be damaged without a second start.
ASK = """
import json, sys
from dataclasses import asdict, replace
from pathlib import Path
from tokenizers import Tokenizer
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.canary import Canary, CanaryError, check_token_counts
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.harness.answer import Answer
from meta_eval.doctor.engine_checks import check_engine
from meta_eval.doctor.known_answers import END, find_model_folder, read_known_answers, make_settings
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient
from meta_eval.doctor.engine_options import EngineOptions

class Broken(VllmClient):
    fed = staticmethod(lambda ids: ids)
    def answer(self, asks):
        return super().answer(replace(ask, prompt_ids=self.fed(list(ask.prompt_ids))) for ask in asks)

encoder = Encoder(Tokenizer.from_file(str(find_model_folder() / "tokenizer.json")))
known = [one for one in read_known_answers() if one.group == "answers"]
HEAD = encoder.encode_text("<|start_header_id|>assistant<|end_header_id|>" + chr(10) * 2)

def sing(client):
    recorded = {one.request.id: Answer(id=one.request.id, text=one.texts[1][0]) for one in known}
    asks = encode_requests([one.request for one in known], encoder)
    try:
        canary = Canary(client, recorded, encoder.encode_text, encoder.bos)
        return asdict(canary.check(list(check_token_counts(client, asks, check=False))))
    except CanaryError as error:
        return str(error)

def damage(model):
    rows = next(value for name, value in model.named_parameters() if "embed_tokens" in name)
    rows.data.copy_(rows.data.roll(701, 0))

found = {}
settings = make_settings(EngineOptions(model_args="enforce_eager=True"))
with Broken(settings, model=settings.model_name, logs=Path("logs"), end=(END,)) as client:
    seen = check_engine(client)
    found["doctor"] = {**asdict(seen), "passed": seen.passed}
    found["sound"] = sing(client)
    for name, fed in {
        "strips BOS": lambda ids: ids[1:],
        "no template": lambda ids: ids[: -len(HEAD)] if ids[-len(HEAD):] == HEAD else ids[:3],
    }.items():
        client.fed = fed
        found[name] = sing(client)
    client.fed = lambda ids: ids
    client._llm.apply_model(damage)
    client._llm.reset_prefix_cache()
    found["damaged weights"] = sing(client)
    found["doctor of damaged weights"] = [one.name for one in check_engine(client).checks if one.status == "failed"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    printed = ready("-c", ASK, folder=tmp_path_factory.mktemp("doctor"))
    output: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return output


def test_every_check_passes_on_the_real_engine(outcomes: dict[str, Any]) -> None:
    assert outcomes["doctor"]["passed"]
    assert [check for check in outcomes["doctor"]["checks"] if check["status"] != "passed"] == []


def test_the_canary_lets_the_sound_model_go_on(outcomes: dict[str, Any]) -> None:
    assert (outcomes["sound"]["texts"], outcomes["sound"]["identical"]) == (24, 24)
    assert (outcomes["sound"]["forced"], outcomes["sound"]["top"]) == (674, 1.0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("strips BOS", "likelier with two BOS, on 16 of 16 docs"),
        ("strips BOS", "With two BOS it answers as recorded: something strips one"),
        ("no template", "most of the model is there. Check that model_name"),
        ("damaged weights", "of which any model that reads them finds half. Check rope_scaling"),
    ],
)
def test_the_canary_stops_a_broken_set_up(outcomes: dict[str, Any], fault: str, words: str) -> None:
    assert words in outcomes[fault]


def test_doctor_finds_damaged_weights(outcomes: dict[str, Any]) -> None:
    assert {"answers known by heart", "likelihoods", "likelihoods in one pass"} <= set(
        outcomes["doctor of damaged weights"]
    )
