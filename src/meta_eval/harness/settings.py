"""Settings of a run, shared by the configuration and the manifest of a pack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    field_validator,
)
from pydantic_core import PydanticUndefined

from meta_eval.base.display import quoted
from meta_eval.base.extensions import find_extensions
from meta_eval.base.inputs import is_address
from meta_eval.base.thresholds import MARGIN, CutAnswers, Weighting
from meta_eval.harness.config_keys import RUN_KEYS, ConfigKeys, list_key_fields, list_run_keys, make_visible

_Keys = TypeVar("_Keys", bound=ConfigKeys)


Scalar = bool | int | float | str
Name = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(make_visible)]


def _check_folder(path: str) -> str:
    """Check that a folder is none of another machine.

    Raises:
        ValueError: It is an address.
    """
    if is_address(path):
        raise ValueError(f"{quoted(path)} is an address, and a path of this machine is needed")
    return path


Folder = Annotated[Name, AfterValidator(_check_folder)]

# numpy's largest seed. lm_eval passes the seed to numpy.
_MOST_SEED = 2**32 - 1


def _check_margin(value: object) -> object:
    """Check a number of points, or a mapping of names to such numbers."""
    margins: dict[str, Any] = value if isinstance(value, dict) and value else {"": value}
    for name, points in margins.items():
        is_number = isinstance(points, int | float) and not isinstance(points, bool)
        if not (is_number and 0 < points < 100):
            at = f"{quoted(name)}: " if name else ""
            raise ValueError(f"{at}{quoted(points)} is not a number of points above 0 and below 100")
    return value


# The largest accepted drop in percentage points: a number, or numbers by name for the mean, tasks, groups and patterns.
Margin = Annotated[float | dict[Name, float], BeforeValidator(_check_margin)]


def parse_args(value: object) -> object:
    """``model_args`` in lm-eval's form, ``a=1,b=x``, or as a mapping."""
    if not isinstance(value, str):
        return {} if value is None else value
    pairs: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        name, equals, text = item.partition("=")
        if not equals:
            raise ValueError(f"{item!r} is not of the form name=value")
        pairs[name.strip()] = text.strip()
    return pairs


def _one_or_more(value: object) -> object:
    """An address, comma-separated addresses, or a YAML list."""
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    return () if value is None else tuple(value) if isinstance(value, list) else value


def _address(url: str) -> str:
    """Check an address.

    Raises:
        ValueError: Its host or port is invalid.
    """
    try:
        parts = urlsplit(url)
        valid = bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:  # an invalid IPv6 address or name, or a port above 65,535
        valid = False
    if not valid:
        raise ValueError(f"{quoted(url)} has no valid host and port")
    return url


# Without ? and #: a path is appended, and a key in a query would be stored in the pack.
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$", max_length=4096), AfterValidator(_address)]


# Environment variables of the shell, in the usual capitals: a key of an API hardly ever looks so.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


def _check_variable(name: str) -> str:
    """Check the name of an environment variable. It is not quoted, because it may be the key itself.

    Raises:
        ValueError: It is not a name.
    """
    if not _VARIABLE.fullmatch(name):
        raise ValueError("names no environment variable: write the variable's name, never the key itself")
    return name


class TokenPrices(BaseModel):
    """What an endpoint charges for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    prompt: float = Field(ge=0, allow_inf_nan=False)
    """For tokens of prompts."""

    completion: float = Field(ge=0, allow_inf_nan=False)
    """For tokens of answers, reasoning included."""

    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """For tokens of prompts that came from the endpoint's cache; None for the price of prompts."""


# The settings of sampling in ``generation_kwargs``, and of each whether it changes drawn answers alone: greedy ones do
# not depend on it. A new one is a row here: templates may have it, every engine gets it, and a comparison of two runs
# that it changes shows it.
SAMPLING: Mapping[str, bool] = {
    "do_sample": True, "temperature": True, "top_p": True, "top_k": True, "min_p": True,
    "repetition_penalty": False, "presence_penalty": False, "frequency_penalty": False,
}  # fmt: skip
OF_DRAWS = frozenset(name for name, alone in SAMPLING.items() if alone)

# When a setting may change. "any run": between runs of one pack, as it changes no answer beyond the noise of runs (of
# an address `ask.pipeline` makes sure of it). "report": likewise, but a report takes the pack's. "docs": it chooses
# docs, and changes no answer. "named pack": where a run names its pack. "prepare": only where the pack is made anew.
When = Literal["any run", "report", "docs", "named pack", "prepare"]


def setting(default: Any = PydanticUndefined, *, when: When, **described: Any) -> Any:
    """A key of `Settings`, with when it may change."""
    return Field(default, json_schema_extra={"when": when}, **described)


def list_default_backends() -> list[str]:
    """The names in the group of entry points ``meta_eval.default_backend``."""
    return list(find_extensions("meta_eval.default_backend"))


def find_default_backend() -> str | None:
    """The backend that is used where none is named. None where no package brings a default, or several do."""
    names = list_default_backends()
    return names[0] if len(names) == 1 else None


class Settings(BaseModel):
    """The settings of a run that a configuration and a pack share."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)

    model_name: Name = setting(description="the model that is evaluated", when="named pack")
    tokenizer: Name | None = setting(
        None,
        description="a hub id or folder with the model's tokenizer, if `model_name` is neither; null for `model_name`",
        when="prepare",
    )
    backend: Name = setting(
        default_factory=find_default_backend,
        validate_default=True,
        description="how the model is reached: [engines](../guides/engines.md)",
        when="named pack",
    )
    tensor_parallel_size: int = setting(1, ge=1, description="GPUs per copy of the model", when="named pack")
    data_parallel_size: int = setting(1, ge=1, description="copies of the model", when="any run")
    gpu_memory_utilization: float = setting(
        0.9, gt=0, le=1, description="share of each GPU's memory that the engine may use", when="any run"
    )
    max_model_len: int = setting(
        8192,
        ge=1,
        description="tokens of prompt and answer together; prepare checks every prompt against it",
        when="prepare",
    )
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] = setting(
        "auto", description="the engine's dtype; for an FP8 checkpoint keep `auto`", when="named pack"
    )
    seed: int = setting(42, ge=0, le=_MOST_SEED, description="of the engine and of lm_eval", when="prepare")
    model_args: Annotated[dict[str, Scalar], BeforeValidator(parse_args)] = setting(
        default_factory=dict, description="more arguments of the engine", when="named pack"
    )

    base_url: Annotated[tuple[Url, ...], BeforeValidator(_one_or_more)] = setting(
        (),
        description="with a backend that asks servers, such as `server`: the address, or a list of several",
        when="any run",
    )
    concurrency: int = setting(64, ge=1, le=4096, description="requests per server at a time", when="any run")
    request_timeout: float = setting(
        3600, gt=0, allow_inf_nan=False, description="seconds to wait for an answer before asking again", when="any run"
    )
    retries: int = setting(5, ge=0, le=100, description="how often a failed request is asked again", when="any run")
    api_key_env: Annotated[str, AfterValidator(_check_variable)] = setting(
        "OPENAI_API_KEY", description="the environment variable that holds the API key of these servers", when="any run"
    )
    requests_per_minute: float | None = setting(
        None,
        gt=0,
        allow_inf_nan=False,
        description="limit of requests to all servers together; null for none",
        when="any run",
    )
    tokens_per_minute: float | None = setting(
        None,
        gt=0,
        allow_inf_nan=False,
        description="limit of tokens, of prompts and answers; null for none",
        when="any run",
    )
    serve: bool = setting(
        False,
        description="with backend `server`: start an engine's server for the run, and stop it whatever happens",
        when="any run",
    )
    price_per_hour: float | None = setting(
        None,
        gt=0,
        allow_inf_nan=False,
        description="what all GPUs together cost per hour; the report then shows the cost",
        when="any run",
    )
    price_per_million_tokens: TokenPrices | None = setting(
        None,
        description="what the endpoint charges: a mapping with `prompt`, `completion` and, where it is cheaper, "
        "`cached`; the report then shows the cost",
        when="any run",
    )

    batch_size: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^auto(:[1-9]\d*)?$")] = setting(
        "auto", description="lm_eval's batch size", when="any run"
    )
    output_path: Folder = setting("eval_results", description="where results go", when="any run")
    limit: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] | None = setting(
        None,
        description="docs per task, or a fraction of them; no SHIP unless min_docs of a gate allows it",
        when="docs",
    )
    verbosity: Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"] | None = setting(
        None, description="lm_eval's log level", when="any run"
    )
    log_samples: bool = setting(True, description="keep every answer: report and compare need them", when="any run")
    show_config: bool = setting(False, description="lm_eval prints its full configuration", when="any run")
    margin: Margin = setting(
        100 * MARGIN,
        description="the largest drop that you accept, in points; or one for the mean and others for tasks, groups "
        "and patterns ([how](../method/decisions.md#the-margin)). It does not change the run",
        when="report",
    )
    cut_answers: CutAnswers = setting(
        "graded",
        description="what a drop does with answers that were cut at the token limit or by a content filter, or are "
        "empty: `graded` as the grader finds them, `wrong`, or `unscored` "
        "([how](../method/decisions.md#cut-answers)). It does not change the run",
        when="prepare",
    )
    weights: Weighting = setting(
        "precision",
        description="what each task counts in the mean drop ([how](../method/decisions.md#weights)). It does not "
        "change the run",
        when="report",
    )

    @field_validator(
        "tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_model_len", "seed", "batch_size",
        "limit", "concurrency", "request_timeout", "retries", "requests_per_minute", "tokens_per_minute",
        "price_per_hour", mode="before",
    )  # fmt: skip
    @classmethod
    def _no_boolean_for_a_number(cls, value: object) -> object:
        """Refuse booleans. Python accepts True as 1."""
        if isinstance(value, bool):
            raise ValueError(f"{value} is not allowed; give a number")
        return value

    @field_validator("verbosity", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("model_name", "tokenizer")
    @classmethod
    def _name_in_model_args(cls, name: str | None) -> str | None:
        if name is not None:
            refuse_separators(name, equals=0)
        return name

    @field_validator("model_args")
    @classmethod
    def _visible_arguments(cls, args: dict[str, Scalar]) -> dict[str, Scalar]:
        for name, value in args.items():
            make_visible(f"{name}={value}")
        return args

    def tokenizer_of(self, model: str | None = None) -> str:
        """Hub id or folder of a model's tokenizer.

        Args:
            model: A model of a sweep. None means ``model_name``.
        """
        return str(self.tokenizer or self.model_args.get("tokenizer") or model or self.model_name)

    def read_keys(self, keys: type[_Keys]) -> _Keys:
        """The values of a plug-in's own keys."""
        return keys.model_construct(**{name: getattr(self, name) for name in keys.model_fields})


if not TYPE_CHECKING:  # with the keys of plug-ins
    Settings = create_model(
        "Settings",
        __base__=Settings,
        __module__=__name__,
        __doc__=Settings.__doc__,
        **list_key_fields(Settings.model_fields, RUN_KEYS),
    )


def list_settings(*when: When) -> frozenset[str]:
    """The settings that may change then. Those of plug-ins may in any run."""
    return frozenset(name for name, of in _WHEN.items() if of in when)


def read_marks() -> dict[str, str]:
    """When each setting may change.

    Raises:
        TypeError: One does not say so.
    """
    marks = dict.fromkeys(list_run_keys(), "any run")
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and "when" in extra:
            marks[name] = str(extra["when"])
        elif name not in marks:
            raise TypeError(f"the setting {name} does not say when it may change")
    return marks


_WHEN = read_marks()


def refuse_separators(text: str, *, equals: int) -> None:
    """Refuse separators. lm-eval splits ``--model_args`` at commas and at the first ``=``, and has no quoting.

    Raises:
        ValueError: It holds a comma, or ``=`` more often than ``equals``.
    """
    if "," in text or text.count("=") > equals:
        raise ValueError(f"{text!r} holds ',' or '=', where lm_eval splits --model_args")


class RunSettings(Settings):
    """The settings of a run as a manifest stores them."""

    tasks: tuple[str, ...]
    """Names for lm_eval's ``--tasks``, in order."""

    include_path: str
    """The pack, as the user wrote its work_dir."""

    runs_code: bool = False
    """Whether scoring may run code that the model writes. lm-eval asks for confirmation."""

    add_bos_token: bool = True
    """Whether each prompt starts with BOS. False if the record was made without it."""


def read_model_args(settings: RunSettings) -> dict[str, Any]:
    """``model_args`` with types, parsed from text as lm-eval does."""
    from lm_eval.utils import simple_parse_args_string

    text = ",".join(f"{name}={value}" for name, value in settings.model_args.items())
    arguments: dict[str, Any] = simple_parse_args_string(text) if text else {}
    return arguments
