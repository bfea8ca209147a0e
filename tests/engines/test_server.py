"""The two lines that prepare prints for a server: lm_eval's and vLLM's."""

from __future__ import annotations

import inspect
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command import cli

from meta_eval.config import load_config
from meta_eval.engines import ENGINES
from meta_eval.engines.server import completions_url
from meta_eval.errors import ConfigError


def settings(**keys: Any) -> Any:
    given = {"model_name": "org/M", "evals_dataset": "sample", "tasks": "meta_gpqa", "backend": "server", **keys}
    config = load_config(None, [f"{name}={json.dumps(value)}" for name, value in given.items()])
    return config.run_settings(config.tasks, runs_code=False)


def model_args(**keys: Any) -> dict[str, str]:
    command = ENGINES["server"].command(settings(**keys))
    pairs = command[command.index("--model_args") + 1].split(",")
    return dict(pair.split("=", 1) for pair in pairs)


def test_lm_eval_knows_every_argument_that_it_is_given() -> None:
    """It takes unknown ones in silence, so a misspelt trap would stay open."""
    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    known = {name for one in (TemplateAPI, LocalCompletionsAPI) for name in inspect.signature(one.__init__).parameters}
    assert set(model_args(model_args={"revision": "abc", "trust_remote_code": True})) <= known


def test_lm_eval_cuts_no_prompt_that_fits() -> None:
    """By lm-eval's own arithmetic: it takes one off, and cuts prompts to what the answer leaves."""
    tokens_of_context, answer = 8192, 1024
    max_length = int(model_args(max_model_len=tokens_of_context)["max_length"]) - 1
    assert max_length - answer == tokens_of_context - answer


def test_the_command_of_lm_eval() -> None:
    command = ENGINES["server"].command(
        settings(base_url="http://a:1/v1,http://b:1/v1", concurrency=7, retries=2, request_timeout=30, batch_size=1)
    )
    assert command[:3] == ("lm_eval", "--model", "local-completions")
    arguments = model_args(base_url="http://a:1/v1,http://b:1/v1", concurrency=7, retries=2, request_timeout=30)
    assert arguments["base_url"] == "http://a:1/v1/completions"
    assert (arguments["num_concurrent"], arguments["max_retries"], arguments["timeout"]) == ("7", "3", "30")
    assert (arguments["tokenized_requests"], arguments["add_bos_token"]) == ("True", "True")
    assert command[command.index("--batch_size") + 1] == "1"
    assert "skip_special_tokens=False" in command[command.index("--gen_kwargs") + 1]


def test_arguments_of_the_server_are_not_told_to_lm_eval() -> None:
    keys = {"model_args": {"enforce_eager": True, "revision": "abc", "lora_local_path": "x/y"}, "serve": True}
    assert "enforce_eager" not in model_args(**keys)
    assert model_args(**keys)["revision"] == "abc"
    line = shlex.join(ENGINES["server"].serve(settings(**keys)) or ())
    assert line.startswith("vllm serve org/M --host 127.0.0.1 --port 8000 ")
    assert line.endswith(" --enforce-eager --enable-lora --lora-modules finetuned=x/y --revision abc")


@pytest.mark.parametrize(
    "written", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/completions"]
)
def test_an_address_may_be_written_in_several_ways(written: str) -> None:
    assert completions_url(written) == "http://h:1/v1/completions"
    assert completions_url("http://h/proxy/7") == "http://h/proxy/7/completions"


@pytest.mark.parametrize("override", ["base_url=https://me:pass@host/v1", "model_args.port=1", "base_url=host:8000"])
def test_what_an_address_may_not_hold(override: str) -> None:
    with pytest.raises(ConfigError):
        load_config(None, ["model_name=m", "evals_dataset=sample", "tasks=meta_gpqa", "backend=server", override])


def test_prepare_prints_one_command_on_stdout_and_the_server_in_words(tmp_path: Path) -> None:
    asked = ["--set", "model_name=m", "--set", "evals_dataset=sample", "--set", "tasks=meta_gpqa", "--set", "backend=server"]  # fmt: skip
    (tmp_path / "c.yaml").write_text("{}\n")
    done = cli("prepare", "--config", "c.yaml", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("lm_eval --model local-completions ")
    assert "\nvllm serve m --host 127.0.0.1 --port 8000 " in done.stderr
    said = json.loads(cli("prepare", "--config", "c.yaml", *asked, "--json", cwd=tmp_path).stdout)
    assert said["serve"].startswith("vllm serve m ")
    assert said["command"] == line
