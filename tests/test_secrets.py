"""Credentials: printed nowhere, in no pack; and what only looks like one stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import cli
from hypothesis import given
from hypothesis import strategies as st
from noted import noted
from runs import write_run

from meta_eval.base.errors import ConfigError, UserError
from meta_eval.base.logs import log
from meta_eval.base.secrets import is_secret, redact_secrets
from meta_eval.pack.config import load_config

TOKEN = "hf_" + "aB3" * 11
BASE = ["model_name=my/model", "evals_dataset=sample", "tasks=meta_gpqa"]
WORD = st.text("abcXYZ019._~-", min_size=1, max_size=30)


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    "override",
    [
        f"model_args.hf_token={TOKEN}", "model_args.token=abc", "model_args={api_key: abc}", "model_args.x=" + TOKEN,
        "model_args=use_auth_token=abc,enforce_eager=True", "model_args.base_url=https://me:pass@host/v1",
        f"evals_revision={TOKEN}", "evals_dataset=https://me:pass@host/a", "model_name=https://me:pass@host/a",
        f"output_path=/tmp/{TOKEN}", f"originals.math.revision={TOKEN}",
    ],
)  # fmt: skip
def test_a_credential_in_the_configuration_is_refused_and_not_repeated(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [*BASE, override])
    message = str(caught.value)
    assert "credential" in message
    assert "environment" in message
    assert TOKEN not in message
    assert "pass@" not in message
    assert "abc" not in message


@pytest.mark.parametrize("address", ["http://host/v1?api_key=s3cret", "http://host/v1#s3cret", "http://host?k=s3cret"])
def test_an_address_of_a_server_has_no_place_for_a_key(address: str) -> None:
    with pytest.raises(ConfigError, match="base_url: ") as caught:
        load_config(None, [*BASE, "backend=server", f"base_url={address}"])
    assert "Allowed: an address such as http://localhost:8000/v1" in str(caught.value)


@pytest.mark.parametrize("name", ["add_bos_token", "tokenizer", "tokenizer_mode", "max_num_batched_tokens", "keyboard"])
def test_what_is_no_credential_is_taken(name: str) -> None:
    assert not is_secret(name, "auto")
    assert not is_secret("token", True)
    prose = "secret: cannot be read; is not of the form key=value; token: none here; punkt_tab: passed"
    assert redact_secrets(prose) == prose
    assert redact_secrets(f"{name}=auto, https://huggingface.co/a@b") == f"{name}=auto, https://huggingface.co/a@b"


@given(user=WORD, word=WORD)
def test_no_message_and_no_note_holds_what_stands_before_a_host(user: str, word: str) -> None:
    address = f"https://{user}q:{word}q@hub.example/x"
    assert f"{word}q@" not in str(UserError(f"{address} cannot be reached", where=address, hint=f"Check {address}"))
    with noted() as notes:
        log.warning("%s is silent", address)
    assert notes == ["https://…@hub.example/x is silent"]


@pytest.mark.parametrize(
    "text",
    [
        "hf_token=S",
        "token=S",
        '{"token": "S"}',
        "{hf_token: S}",
        "'api_key': 'S'",
        "{'Authorization': 'Bearer S'}",
        "Authorization: Basic S",
        "--set model_args.password=S",
    ],
)
def test_settings_are_redacted_in_every_way_to_write_them(text: str) -> None:
    assert redact_secrets(text.replace("S", "s3cret")) == text.replace("S", "…")


def test_an_address_of_a_hub_with_a_password_is_not_printed(tmp_path: Path) -> None:
    done = cli(
        "prepare",
        "--config",
        _config(tmp_path),
        cwd=tmp_path,
        HF_ENDPOINT="ftp://me:hunter2@host",
        HF_HOME=str(tmp_path),
    )
    assert done.returncode == 2
    assert "hunter2" not in done.stderr + done.stdout


def _config(folder: Path) -> Path:
    path = folder / "c.yaml"
    tree = {"model_name": "m", "evals_dataset": "meta-llama/Llama-3.1-8B-Instruct-evals", "tasks": "meta_gpqa"}
    path.write_text(json.dumps(tree))
    return path


def test_a_report_of_a_run_that_had_a_token_does_not_hold_it(tmp_path: Path) -> None:
    arguments = {"pretrained": "org/Some-Model", "hf_token": "s3cret", "base_url": "https://me:s3cret@host/v1"}
    run = write_run(tmp_path / "run", [1, 0], model_args=arguments)
    done = cli("report", run, "--json", "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    assert done.returncode == 0
    assert (
        "s3cret" not in done.stdout + done.stderr + (tmp_path / "r.html").read_text() + (tmp_path / "r.md").read_text()
    )
