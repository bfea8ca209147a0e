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
from meta_eval.pack.records.log_record import make_task_name

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


@pytest.mark.plugin("promptfoo")
def test_no_credential_of_a_log_is_in_a_pack(tmp_path: Path) -> None:
    from drawn_logs import WRITERS, draw_answers

    path = WRITERS["promptfoo"](tmp_path / "log", draw_answers(0, docs=3), 0)
    path.write_text(path.read_text().replace('{"id": "m"', '{"id": "https://me:s3cret@host/v1"'), encoding="utf-8")
    keys = {"evals_dataset": "log", "tasks": "recorded", "model_name": "m", "max_model_len": 999, "backend": "server"}
    (tmp_path / "eval_config.yaml").write_text(json.dumps({**keys, "base_url": "http://127.0.0.1:9/v1"}))
    done = cli("prepare", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for file in (tmp_path / "work_dir").rglob("*"):
        assert not file.is_file() or b"s3cret" not in file.read_bytes(), file


@pytest.mark.plugin("nightly")
def test_no_credential_of_a_history_is_shown(tmp_path: Path) -> None:
    for second in (1, 2):
        run = write_run(tmp_path / f"run{second}", [1, 0, 1], time=f"2026-01-0{second}T03-04-05.000006")
        assert cli("history", "add", run, cwd=tmp_path).returncode == 0
    for file in (tmp_path / "history").iterdir():
        text = file.read_text().replace('"org/Some-Model"', '"https://me:s3cret@host/m"')
        file.write_text(text.replace('"meta_some"', f'"{TOKEN}"'), encoding="utf-8")
    done = cli("history", "check", "--html", "o.html", "--markdown", "o.md", "--json", cwd=tmp_path)
    shown = done.stdout + done.stderr + (tmp_path / "o.html").read_text() + (tmp_path / "o.md").read_text()
    assert "https://…@host/m" in shown and "s3cret" not in shown and TOKEN not in shown


@given(user=WORD, word=WORD)
def test_no_message_and_no_note_holds_what_stands_before_a_host(user: str, word: str) -> None:
    address = f"https://{user}q:{word}q@hub.example/x"
    assert f"{word}q@" not in str(UserError(f"{address} cannot be reached", where=address, hint=f"Check {address}"))
    assert f"{word}q@" not in str(UserError("is no folder", where=str(Path(address))))
    assert f"{word}q" not in make_task_name(address)
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
        "--hf-token=S",
        "--api-key S --seed 3",
        "export MY_API_KEY=S",
        "x-api-key: S",
        "https://host/v1?key=S&n=1",
        "https://host/x?x-amz-signature=S",
    ],
)
def test_settings_are_redacted_in_every_way_to_write_them(text: str) -> None:
    assert redact_secrets(text.replace("S", "s3cret")) == text.replace("S", "…")


@pytest.mark.parametrize("text", ["Cookie: id=s3cret", r'"{\"api_key\": \"s3cret\"}"'])
def test_what_stands_around_a_credential_may_be_hidden_with_it(text: str) -> None:
    assert "s3cret" not in redact_secrets(text) and "…" in redact_secrets(text)


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
    arguments |= {"extra": '--api-key s3cret, {"api_key": "s3cret"}', "env": {"API_KEY": "s3cret"}}
    of_task = {"lm_eval_version": TOKEN, "versions": {"meta_some": TOKEN}, "pretty_env_info": f"vllm 0.9.1{TOKEN}"}
    run = write_run(tmp_path / "run", [1, 0], model_args=arguments, extra=of_task)
    done = cli("report", run, "--json", "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    assert done.returncode == 0
    assert TOKEN not in done.stdout + done.stderr + (tmp_path / "r.html").read_text() + (tmp_path / "r.md").read_text()
    assert (
        "s3cret" not in done.stdout + done.stderr + (tmp_path / "r.html").read_text() + (tmp_path / "r.md").read_text()
    )


PLANTED = (
    f"sk-proj-{'Ab' * 20}", f"Bearer {'q7' * 12}", "https://me:s3cretword@host.example/x", TOKEN, f"AKIA{'Q2' * 8}",
)  # fmt: skip
SHOWN = ("o.html", "o.md", "o.xml", "o.json", "o.txt")


@pytest.mark.plugin("nightly")
@pytest.mark.parametrize("planted", PLANTED, ids=("provider", "bearer", "address", "hub", "cloud"))
def test_no_view_shows_a_credential_that_results_of_others_hold(planted: str, tmp_path: Path) -> None:
    of_others = {
        "lm_eval_version": planted, "versions": {"meta_some": planted}, "n-shot": {"meta_some": planted},
        "git_hash": planted, "pretty_env_info": f"vllm 0.9.1{planted}", "chat_template_sha": planted,
        "system_instruction": planted,
        "model_name": f"org/{planted}",
    }  # fmt: skip
    config = {
        "model": planted,
        "gen_kwargs": {planted: planted},
        "meta_eval": {"engine": planted},
        "random_seed": planted,
    }
    runs = [
        write_run(
            tmp_path / name,
            [1, 0],
            subtasks=[planted, "s"],
            time=f"2026-01-0{day}T03-04-05.000006",
            extra=extra,
            config=config,
        )
        for day, (name, extra) in enumerate((("a", {}), ("b", of_others), ("c", of_others)), 1)
    ]
    views = [
        word
        for file, view in zip(SHOWN, ("html", "markdown", "junit", "json", "text"), strict=True)
        for word in ("--view", f"{view}={file}")
    ]
    for others in (runs[1:2], runs[1:]):
        done = cli("compare", runs[0], *others, "--json", *views, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown = [done.stdout, done.stderr, *((tmp_path / file).read_text() for file in SHOWN)]
        key = planted.removeprefix("Bearer ").removeprefix("https://").partition("@")[0]
        assert [key in "".join(text.split()) for text in shown] == [False] * len(shown)
