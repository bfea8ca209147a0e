"""The two lines that prepare prints for a server: lm_eval's and vLLM's."""

from __future__ import annotations

import inspect
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command import cli
from places import REPOSITORY

from meta_eval.base.errors import ConfigError
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.backends.server import make_completions_url
from meta_eval.pack.config import load_config


def settings(**keys: Any) -> Any:
    given = {"model_name": "org/M", "evals_dataset": "sample", "tasks": "meta_gpqa", "backend": "server", **keys}
    config = load_config(None, [f"{name}={json.dumps(value)}" for name, value in given.items()])
    return config.run_settings(config.tasks, runs_code=False)


def model_args(**keys: Any) -> dict[str, str]:
    command = find_backend("server").command(settings(**keys))
    pairs = command[command.index("--model_args") + 1].split(",")
    return dict(pair.split("=", 1) for pair in pairs)


def test_lm_eval_knows_every_argument_that_it_is_given() -> None:
    """It takes unknown ones in silence, so a misspelt trap would stay open."""
    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    known = {
        name for kind in (TemplateAPI, LocalCompletionsAPI) for name in inspect.signature(kind.__init__).parameters
    }
    assert set(model_args(model_args={"revision": "abc", "trust_remote_code": True})) <= known


@pytest.mark.parametrize("backend", ["server", "vllm", "hf", "sglang", "local-completions", "trtllm"])
def test_another_tokenizer_reaches_lm_eval_and_vllm(backend: str) -> None:
    given = settings(backend=backend, tokenizer="org/T")
    command = find_backend(backend).command(given)
    assert f"{find_backend(backend).tokenizer}=org/T" in command[command.index("--model_args") + 1].split(",")
    assert (given.tokenizer_of(), given.tokenizer_of("other")) == ("org/T", "org/T")
    served = find_backend(backend).serve_command(given)
    assert not served or "--tokenizer org/T" in " ".join(served)


def test_without_one_the_tokenizer_is_that_of_the_model_or_of_model_args() -> None:
    assert settings().tokenizer_of() == "org/M"
    assert settings().tokenizer_of("other") == "other"
    assert settings(backend="vllm", model_args={"tokenizer": "org/T"}).tokenizer_of() == "org/T"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"backend": "vllm", "model_args": {"tokenizer": "org/T"}}, "leave model_args.tokenizer out"),
        ({"backend": "gguf"}, "backend gguf has no known tokenizer option"),
        ({"model_args": {"tokenizer": "org/T"}}, "use the key tokenizer"),
    ],
)
def test_a_tokenizer_that_cannot_be_passed_on_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(tokenizer="org/U", **keys)


def test_lm_eval_reads_them_as_they_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all the context: what it keeps of ``max_length`` is what a prompt and its answer may have together."""
    from lm_eval.models import api_models
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.utils import simple_parse_args_string

    monkeypatch.setattr(api_models, "find_spec", lambda _: True)  # it is not asked anything, so needs no tenacity
    text = ",".join(f"{name}={value}" for name, value in model_args(max_model_len=8192, concurrency=7).items())
    read = LocalCompletionsAPI(**{**simple_parse_args_string(text), "tokenizer_backend": None}, batch_size="1")
    assert read.max_length == 8192
    assert (read._concurrent, read.max_retries, read.timeout) == (7, 6, 3600)
    assert (read.add_bos_token, read._batch_size, read._truncate, read._seed) == (True, 1, False, 42)


def test_the_command_of_lm_eval() -> None:
    command = find_backend("server").command(
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
    line = shlex.join(find_backend("server").serve_command(settings(**keys)))
    assert line.startswith("vllm serve org/M --host 127.0.0.1 --port 8000 ")
    assert line.endswith(" --enforce-eager --enable-lora --lora-modules finetuned=x/y --revision abc")


@pytest.mark.parametrize(
    "written", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/completions"]
)
def test_an_address_may_be_written_in_several_ways(written: str) -> None:
    assert make_completions_url(written) == "http://h:1/v1/completions"
    assert make_completions_url("http://h/proxy/7") == "http://h/proxy/7/completions"


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
    output = json.loads(cli("prepare", "--config", "c.yaml", *asked, "--json", cwd=tmp_path).stdout)
    assert output["serve"].startswith("vllm serve m ")
    assert output["command"] == line


def test_hints_name_what_the_extras_install() -> None:
    """The package is on no registry yet, so `pip install 'meta-eval[…]'` would not work."""
    import tomllib

    from meta_eval.plugins.engines.llamacpp.backend import LlamaCpp
    from meta_eval.plugins.engines.ray.backend import Ray
    from meta_eval.plugins.engines.vllm.serve import VLLM_EXTRA

    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {"vllm": VLLM_EXTRA, "llamacpp": LlamaCpp.install, "ray": Ray.extra}
    for name, hint in named.items():
        assert shlex.split(hint) == extras["optional-dependencies"][name]
