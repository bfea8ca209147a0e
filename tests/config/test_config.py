"""The configuration: a recipe user's file, overrides, and one clear message for each mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offered import offer, withhold
from places import REPOSITORY
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

from meta_eval.base.errors import ConfigError, UserError
from meta_eval.harness import settings
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config, load_config
from meta_eval.pack.config.config_loader import override_settings

# The keys and values of a file written for Meta's recipe.
RECIPE = """\
model_name: "meta-llama/Llama-3.1-8B-Instruct" # a comment
evals_dataset: "meta-llama/Llama-3.1-8B-Instruct-evals"
tasks: "meta_instruct"
tensor_parallel_size: 1
data_parallel_size: 4
gpu_memory_utilization: 0.9
max_model_len: 8192
batch_size: "auto"
output_path: "eval_results"
limit: null
verbosity: "INFO"
log_samples: true
work_dir: "./work_dir"
template_dir: "./meta_template"
show_config: false
"""


def load(tmp_path: Path, text: str = RECIPE, *overrides: str) -> Config:
    path = tmp_path / "eval_config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def test_a_recipe_file_works_unchanged(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.tasks == ("meta_instruct",)
    assert (config.data_parallel_size, config.verbosity, config.limit, config.seed) == (4, "INFO", None, 42)


def test_overrides_do_without_the_default_file_and_without_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ("model_name=m", "evals_dataset=e", "tasks=t")
    assert load_config(Path("eval_config.yaml"), keys) == load_config(None, keys)
    with pytest.raises(ConfigError, match=r"there is no eval_config.yaml here.*tasks: is not set"):
        load_config(Path("eval_config.yaml"), keys[:2])
    for path, overrides in (("eval_config.yaml", ()), ("mine.yaml", keys)):
        with pytest.raises(ConfigError, match=f"{path}: cannot be read"):
            load_config(Path(path), overrides)


REQUIRED = {"model_name": "m", "evals_dataset": "e", "tasks": "t"}
DEFAULTS = {k: v for k, v in Config.model_validate(REQUIRED).model_dump(mode="json").items() if k not in REQUIRED}


def test_the_shipped_file_is_a_screen_of_defaults() -> None:
    shipped = load_config(REPOSITORY / "eval_config.yaml").model_dump(mode="json")
    assert {key: value for key, value in shipped.items() if key not in REQUIRED} == DEFAULTS
    lines = (REPOSITORY / "eval_config.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    keys = set(YAML(typ="safe").load("\n".join(lines)))
    assert keys >= {*REQUIRED, "work_dir", "margin"}
    assert all("#" in line for line in lines if line)


def test_the_reference_documents_every_key_with_its_default() -> None:
    page = (REPOSITORY / "docs/reference/configuration.md").read_text(encoding="utf-8")
    rows = {key: rest for key, *rest in re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \| (.+) \|$", page, re.MULTILINE)}
    assert set(rows) == set(Config.model_fields)
    assert {rows[key][0] for key in REQUIRED} == {"(needed)"}
    elsewhere = ("originals", "backend")
    documented = {key: YAML(typ="safe").load(rows[key][0].strip("`")) for key in DEFAULTS if key not in elsewhere}
    assert documented == {key: value for key, value in DEFAULTS.items() if key not in elsewhere}
    assert rows["backend"][0] in ("(needed)", f"`{DEFAULTS['backend']}`"), "without an engine nothing is the default"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("tasks=meta_ifeval", {"tasks": ("meta_ifeval",)}),
        ("tasks=a, b,,a", {"tasks": ("a", "b")}),
        ("tasks=[a, b]", {"tasks": ("a", "b")}),
        ("limit=0.5", {"limit": 0.5}),
        ("limit=12", {"limit": 12}),
        ("batch_size=8", {"batch_size": 8}),
        ("batch_size=auto:4", {"batch_size": "auto:4"}),
        ("verbosity=debug", {"verbosity": "DEBUG"}),
        ("model_args.enforce_eager=true", {"model_args": {"enforce_eager": True}}),
        ("model_args=quantization=fp8,swap=4", {"model_args": {"quantization": "fp8", "swap": "4"}}),
        ("model_name=./my model", {"model_name": "./my model"}),
        ("tokenizer=org/Model", {"tokenizer": "org/Model"}),
    ],
)
def test_set_overrides_a_key(tmp_path: Path, override: str, expected: dict[str, Any]) -> None:
    config = load(tmp_path, RECIPE, override)
    assert {key: getattr(config, key) for key in expected} == expected


def test_limits_are_allowed_themselves(tmp_path: Path) -> None:
    lowest = {"concurrency": 1, "retries": 0, "seed": 0}
    overrides = [f"{key}={value}" for key, value in lowest.items()]
    assert load(tmp_path, RECIPE, *overrides).model_dump(include=set(lowest)) == lowest


def test_a_sweep_is_named_beside_the_shipped_configuration(tmp_path: Path) -> None:
    config = load(
        tmp_path, (REPOSITORY / "eval_config.yaml").read_text("utf-8"), "model_name=[my/bf16, my/fp8, my/int4]"
    )
    assert (config.model_name, config.other_models) == ("my/bf16", ("my/fp8", "my/int4"))
    with pytest.raises(ConfigError, match="leave other_models out"):
        load(tmp_path, RECIPE, "model_name=[my/bf16, my/fp8]", "other_models=[my/int4]")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("limt: 3", ["limt", "no such key", "'limit'"]),
        ("limit: 0", ["limit", "0 is not allowed", "fraction"]),
        ("limit: 1.5", ["limit", "1.5"]),
        ("batch_size: big", ["batch_size", "'big'", "auto"]),
        ("batch_size: auto:0", ["batch_size", "auto:0"]),
        ("concurrency: true", ["concurrency", "True", "give a number"]),
        ("retries: false", ["retries", "False"]),
        ("price_per_hour: true", ["price_per_hour", "True"]),
        ("tasks: []", ["tasks", "comma list"]),
        ("tensor_parallel_size: two", ["tensor_parallel_size", "'two'"]),
        ("gpu_memory_utilization: 90", ["gpu_memory_utilization", "90"]),
        ("model_name: 'a,b'", ["model_name", "','"]),
        ("model_name: .", ["model_name", "'.' cannot name the results folder", "write the model's full path"]),
        ("model_name: [m, ..]", ["other_models", "'..' cannot name the results folder"]),
        (f"model_name: {'/some/where' * 20}/x", ["model_name", "255 bytes at most): make a shorter path"]),
        ("model_args: {add_bos_token: false}", ["model_args", "add_bos_token", "exactly one"]),
        ("model_args: {pretrained: x}", ["pretrained", "model_name"]),
        ("model_args: {a: 'x,y'}", ["model_args", "','"]),
        ("model_args: '=1'", ["model_args", "'=1' has no name"]),
        ("model_args: {' ': 1}", ["model_args", "'=1' has no name"]),
        pytest.param(
            "model_args: {n_threads: 1}",
            ["'n_threads' is an argument of llama.cpp, and backend vllm does not have it"],
            marks=pytest.mark.plugin("engines"),
        ),
        ("dtype: int7", ["dtype", "'int7'"]),
        ("tokenizer: 'a,b'", ["tokenizer", "','"]),
        ("backend: servr", ["backend", "did you mean 'server'", "Allowed: server"]),
        pytest.param(
            "backend: vlm",
            ["backend", "did you mean 'vllm'", "Allowed: server, ", "llamacpp, ray"],
            marks=pytest.mark.plugin("engines"),
        ),
        ("bundle: perhaps", ["bundle", "'perhaps' is not allowed: it must be true or false. All keys: "]),
        ("max_model_len: many", ["'many' is not allowed: it must be a whole number. All keys: "]),
        ("max_model_len: 2.5", ["2.5 is not allowed: it must be a whole number. All keys: "]),
        ("retries: -1", ["-1 is not allowed: it must be 0 or more. All keys: "]),
        ("concurrency: 0", ["0 is not allowed: it must be 1 or more. All keys: "]),
        ("dtype: float17", ["it must be 'auto', ", "; did you mean 'float16'"]),
    ],
)
def test_each_mistake_is_one_message_with_file_line_and_key(tmp_path: Path, line: str, words: list[str]) -> None:
    key = line.partition(":")[0]
    text = "\n".join(kept for kept in RECIPE.splitlines() if not kept.startswith(f"{key}:")) + f"\n{line}\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert f"eval_config.yaml:{len(text.splitlines())}: " in message
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model_nam: m\nevals_dataset: e\ntasks: t\n", ["model_nam: there is no such key; did you mean 'model_name'"]),
        ("model: m\n", ["did you mean 'model_name', 'model_args' or 'max_model_len'? All keys: ", "configuration.md"]),
        ("model_name: m\n", ["evals_dataset: is not set", "local folder"]),
        ("price_per_million_tokens: {prompt: 0.15}", ["price_per_million_tokens.completion: is not set"]),
        ("a: [", ["is not YAML"]),
        ("a: 1\na: 2\n", ["'a' is given twice", "eval_config.yaml:2"]),
        ("- a\n", ["must be a mapping"]),
        ("", ["must be a mapping"]),
    ],
)
def test_a_file_that_says_no_configuration(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    for word in words:
        assert word in str(caught.value)


def test_all_wrong_keys_are_in_one_message(tmp_path: Path) -> None:
    text = "model_nam: m\nlimt: 3\nlimit: 0\nmax_model_len: many\ntasks: t\nmargin: many\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for words in ("yaml:1: model_nam: there is no such key", "yaml:2: limt: there is no such key",
                  "yaml:3: limit: 0 is not allowed", "yaml:4: max_model_len: 'many' is not allowed",
                  "yaml: evals_dataset: is not set", "yaml:6: margin: 'many' is not"):  # fmt: skip
        assert message.count(words) == 1, words
    assert message.count("All keys: ") == 1
    assert "model_name: is not set" not in message


def test_a_file_of_wrong_keys_alone_is_a_message_of_limited_length(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"And 9\d more") as caught:
        load(tmp_path, "".join(f"wrong_{number}: 1\n" for number in range(99)))
    assert len(str(caught.value)) < 2000


def test_a_missing_file_names_init(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="meta-eval init"):
        load_config(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("override", ["tasks", "=x", "a..b=1", "limit=0", "model_args.dtype=x"])
def test_a_wrong_override_is_named(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=f"--set {override}"):
        load(tmp_path, RECIPE, override)


@pytest.mark.parametrize(
    ("given", "override"),
    [("abc", "model_args.a=1"), ("[1]", "model_args.a=1"), ("x", "margin.a=1")],
)
def test_an_override_reaches_into_mappings_alone(tmp_path: Path, given: str, override: str) -> None:
    key = override.partition(".")[0]
    with pytest.raises(ConfigError, match=f"--set {override}: {key}: .*(not a mapping|of the form)"):
        load(tmp_path, RECIPE, f"{key}={given}", override)


def test_without_a_default_the_backend_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    withhold(monkeypatch, "meta_eval.default_backend")
    with pytest.raises(ConfigError, match=r"backend: is not set\. Allowed: server") as refusal:
        load(tmp_path, RECIPE)
    assert "\n" not in str(refusal.value)
    assert load(tmp_path, RECIPE, "backend=server").backend == "server"


def test_two_packages_with_a_default_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "meta_eval.default_backend", only=True, mine=1, yours=2)
    with pytest.raises(ConfigError, match="backend: is not set, and mine and yours are each the default of a package"):
        load(tmp_path, RECIPE)


@pytest.mark.plugin("engines")
@pytest.mark.parametrize(
    ("backend", "args", "overrides", "kept", "words"),
    [
        ("llamacpp", "n_threads=1", ["backend=hf"], {}, "without model_args n_threads, which sets the speed"),
        ("llamacpp", "n_threads=1", ["backend=hf", "model_args.device=cpu"], {"device": "cpu"}, "n_threads"),
        ("llamacpp", "n_threads=1", ["backend=hf", "model_args={}"], {}, ""),
        (
            "vllm",
            "enforce_eager=True,revision=r",
            ["backend=hf"],
            {"revision": "r"},
            "without model_args enforce_eager",
        ),
        ("vllm", "quantization=fp8", ["backend=server"], {"quantization": "fp8"}, ""),
        ("vllm", "max_batch_size=4", ["backend=hf"], {"max_batch_size": "4"}, ""),
        ("vllm", "enforce_eager=True", ["backend=vllm"], {"enforce_eager": "True"}, ""),
    ],
)
def test_another_engine_does_not_get_the_tuning_of_the_former(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: str, args: str, overrides: list[str], kept: object,
    words: str,
) -> None:  # fmt: skip
    config = load(tmp_path, f"{RECIPE}\nbackend: {backend}\nmodel_args: {args}\n", *overrides)
    assert config.model_args == kept
    assert words in caplog.text and bool(caplog.text) is bool(words)
    written = load(tmp_path, f"{RECIPE}\nbackend: {backend}\nmodel_args: {args}\n").run_settings(
        ("t",), runs_code=False
    )
    assert override_settings(written, overrides).model_args == kept


@pytest.mark.plugin("engines")
@pytest.mark.parametrize(
    ("backend", "args", "other"),
    [
        ("vllm", "quantization=fp8", "hf"),
        pytest.param("chat", "reasoning_effort=low", "server", marks=pytest.mark.plugin("chat")),
        ("llamacpp", "a=1", "vllm"),
    ],
)
def test_another_engine_does_not_get_what_may_change_answers(
    tmp_path: Path, backend: str, args: str, other: str
) -> None:
    with pytest.raises(ConfigError, match=f"for backend {backend}, and may change answers") as refusal:
        load(tmp_path, f"{RECIPE}\nbackend: {backend}\nmodel_args: {args}\n", f"backend={other}")
    assert refusal.value.where == f"--set backend={other}"


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("llamacpp", marks=pytest.mark.plugin("engines")),
        pytest.param("chat", marks=pytest.mark.plugin("chat")),
    ],
)
def test_values_that_no_command_holds_may_have_commas(backend: str, tmp_path: Path) -> None:
    config = load(tmp_path, f"{RECIPE}\nbackend: {backend}\nmodel_args: {{a: '1,2=3'}}\n")
    assert config.model_args == {"a": "1,2=3"}


def test_model_args_as_text_take_an_override(tmp_path: Path) -> None:
    config = load(tmp_path, RECIPE, "model_args=a=1,b=2", "model_args.b=3")
    assert config.model_args == {"a": "1", "b": 3}


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/v1",
        "http://[",
        "http://[zz]/v1",
        "http://a:99999",
        "http://a:x/v1",
        "http://a:0",
        "http://:80",
        "http://..:80/v1",
        "http://a..b/v1",
        f"http://{'a' * 64}/v1",
    ],
)
def test_an_address_has_a_host_and_a_port(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="has no valid host and port"):
        load(tmp_path, RECIPE, f"base_url={json.dumps(url)}")


@pytest.mark.plugin("meta")
@given(
    st.dictionaries(
        st.sampled_from([*Config.model_fields, "tsaks"]),
        st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.text())),
    )
)
def test_any_mapping_is_a_config_or_one_message(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("config") / "c.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(data, file)
    try:
        load_config(path)
    except ConfigError as error:
        assert str(error).startswith(str(path))


@pytest.mark.parametrize("key", ["work_dir", "output_path"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [("~/x y", "{home}/x y"), ("-x", "./-x"), ("--help", "./--help"), ("./~", "./~"),
     ("./x/../y", "y"), ("x/../-y", "./-y"), ("../y", "../y"), ("{home}/x/../y", "{home}/y"), ("x/../..", "..")],
)  # fmt: skip
def test_what_is_printed_is_what_was_checked(
    key: str, written: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell expands no quoted ``~``, and lm_eval takes what begins with ``-`` for an option."""
    monkeypatch.setenv("HOME", str(tmp_path))
    config = load_config(
        None,
        ["model_name=~/model", "evals_dataset=sample", "tasks=meta_gpqa", f"{key}={written.format(home=tmp_path)!r}"],
    )
    run = config.run_settings(config.tasks, runs_code=False)
    command = find_backend("server").command(run)
    option = {"work_dir": "--include_path", "output_path": "--output_path"}[key]
    assert command[command.index(option) + 1] == meant.format(home=tmp_path) == str(getattr(config, key))
    assert f"model={tmp_path}/model," in command[command.index("--model_args") + 1]


@pytest.mark.parametrize("override", ["work_dir=~nosuchuser/x", "template_dir=~nosuchuser", "tasks=-x"])
def test_a_name_that_no_command_can_hold_is_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="no such user|names no task, and only leaves out x"):
        load_config(None, ["model_name=m", "evals_dataset=sample", "tasks=meta_gpqa", override])


@pytest.mark.parametrize("hidden", ["\0", "\x1b[31m", "\n", "\u202e"])
@pytest.mark.parametrize(
    "key",
    ["model_name", "tokenizer", "evals_dataset", "evals_revision", "tasks", "work_dir", "output_path", "template_dir",
     "model_args"],
)  # fmt: skip
def test_nothing_in_the_command_is_hidden(key: str, hidden: str, tmp_path: Path) -> None:
    value: Any = {"quantization": f"a{hidden}b"} if key == "model_args" else f"a{hidden}b"
    with pytest.raises(UserError, match="holds an invisible character|is not text"):
        load(tmp_path, RECIPE, f"{key}={json.dumps(value)}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('model_name: "m\nevals_dataset: sample\n', "a quote is not closed"),
        ("model_name: m\n evals_dataset: sample\n", "or indentation"),
        ("model_name: m\nevals_datset: sample\nconcurency: 2\nmax_model_len: x\n", "concurency"),
        ("model_name: m\nevals_datset: sample\nconcurency: 2\nmax_model_len: x\n", "max_model_len"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_at_once_with_its_likely_cause(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "c.yaml")
    assert words in str(error.value)


def test_a_setting_that_does_not_say_when_it_may_change_stops_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {**settings.Settings.model_fields, "new": FieldInfo(default=1)}
    monkeypatch.setattr(settings.Settings, "__pydantic_fields__", fields)
    with pytest.raises(TypeError, match="the setting new does not say when it may change"):
        settings.read_marks()


@pytest.mark.parametrize(
    ("overrides", "is_refused"),
    [
        (["base_url=https://b.example/v1"], True),
        (["base_url=https://b.example/v1", "api_key_env=B_KEY"], False),
        (["base_url=https://b.example/v1", "api_key_env=A_KEY"], False),
        (["base_url=https://a.example/v1"], False),
        (["concurrency=3"], False),
    ],
)
def test_the_key_of_a_packs_server_goes_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], is_refused: bool
) -> None:
    monkeypatch.setenv("A_KEY", "k-0123456789abcdef")
    text = f"{RECIPE}\nbackend: server\nbase_url: https://a.example/v1\napi_key_env: A_KEY\n"
    of_pack = load(tmp_path, text).run_settings(("t",), runs_code=False)
    if is_refused:
        with pytest.raises(ConfigError, match="--set base_url: is another server, and the key in A_KEY is that of"):
            override_settings(of_pack, overrides)
    else:
        override_settings(of_pack, overrides)


def test_where_the_pack_has_no_key_another_server_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    of_pack = load(tmp_path, f"{RECIPE}\nbackend: server\nbase_url: https://a.example/v1\n").run_settings(
        ("t",), runs_code=False
    )
    assert override_settings(of_pack, ["base_url=https://b.example/v1"]).base_url == ("https://b.example/v1",)
