"""Runs vLLM on a Ray cluster, or on a local cluster for the time of the run, with ``ray.data.llm``."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.served import diagnose_engine
from meta_eval.base.inputs import open_regular
from meta_eval.harness.settings import read_model_args
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.plugins.engines.output import redirect_output
from meta_eval.plugins.engines.ray import ray_rows
from meta_eval.plugins.engines.ray.run_keys import RayKeys
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient
from meta_eval.sockets import Answer, BackendError, Request, RunSettings, explain_too_long, log

# Requests per batch. Ray returns a batch when all its answers are ready, and a dying worker loses it.
_TOGETHER = 8

# Batches per worker at a time: 1,024 requests, vLLM's maximum on the largest cards.
_BATCHES = 128

# Attempts to start a local cluster.
_STARTS = 3

# Environment variables that workers get, also on other machines; no credentials.
_SHARED = ("VLLM_", "HF_HUB_OFFLINE")

# Errors with which vLLM refuses a request for good.
_REFUSED = ("ValueError", "VLLMValidationError", "ValidationError", "TypeError")


class RayClient(VllmClient):
    """`VllmClient` on ``data_parallel_size`` workers with ``tensor_parallel_size`` GPUs each.

    Ray's results have no finish reason. An answer with fewer than max_tokens tokens was stopped, because its prompt
    leaves room for all. An answer with max_tokens was cut off if its text is that of all its tokens, and was stopped if
    the text lacks a stop text or end token. If unclear, ``finish_reason`` is None.

    Ray restarts a worker that dies and repeats its requests. Answers come in batches of 8.
    """

    def __init__(self, settings: RunSettings, *, model: str, logs: Path, end: Sequence[str] = ()) -> None:
        super().__init__(settings, model=model, logs=logs, end=end)
        self._log = logs / "ray.log"
        self._params: Any = dict  # sampling parameters; the workers convert them to vLLM's class
        self._lora = None
        self._address = settings.read_keys(RayKeys).ray_address
        self._mine = self._address is None
        self._handler: logging.Handler | None = None
        self._collected = False

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        if read_model_args(self.settings).get("lora_local_path") is not None:
            raise BackendError(
                "is not supported by backend ray", where="model_args.lora_local_path",
                hint="Merge the adapter into the model, or use backend vllm",
            )  # fmt: skip
        try:
            with self._quiet():
                import ray
                from vllm import SamplingParams

                self._versions = f"ray {ray.__version__}, vllm {version('vllm')}"
                self._can_ask_ids = "logprob_token_ids" in signature(SamplingParams).parameters
                self._flat = False  # Arrow cannot store its result
                self._connect()
        except ModuleNotFoundError as error:
            raise BackendError(
                f"{error.name} is not installed", where="backend ray", hint=f"pip install {self.backend.extra}"
            ) from None
        except (BackendError, KeyboardInterrupt):
            self._disconnect()
            raise
        except Exception as error:
            self._disconnect()
            raise diagnose_engine(error, self._log, where="backend ray") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    @property
    def engine(self) -> str:
        return self._versions

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        import ray

        blocks = []
        for rows in _batches(self._rows(requests), _TOGETHER):
            refused = [row for row in rows if isinstance(row, Answer)]
            yield from refused
            if sent := [row for row in rows if not isinstance(row, Answer)]:
                blocks.append(ray.put(_table(sent)))
        if not blocks:
            return
        open_: dict[int, dict[int, Mapping[str, Any]]] = {}
        for row in self._answers(blocks):
            parts = open_.setdefault(row["number"], {})
            parts[row["part"]] = row
            # Ray itself uses pickle: whoever can forge this already controls the driver.
            request: Request | None = pickle.loads(parts[0]["ask"]) if 0 in parts else None  # noqa: S301
            if request is not None and len(parts) == self._count(request):
                del open_[row["number"]]
                yield self._read_answer(request, [parts[part] for part in sorted(parts)])
        if open_:
            raise BackendError(
                f"Ray lost {len(open_):,} requests", where="backend ray", hint="Rerun the same command to ask them"
            )

    def _rows(self, requests: Iterable[Request]) -> Iterator[dict[str, Any] | Answer]:
        """Make a row for each engine request; requests that do not fit are returned as errors."""
        for number, request in enumerate(requests):
            why = explain_too_long(request, self.settings.max_model_len)
            if why is not None:
                yield request.answer(error=why, retry=False)
                continue
            forced = self._forces(request)
            for part, (ids, params) in enumerate(self._parts(request)):
                yield {
                    "number": number,
                    "part": part,
                    "ask": pickle.dumps(request) if part == 0 else b"",
                    "forced": len((request.continuation_ids or ())[part]) if forced else 0,
                    "each": request.kind == "force",
                    "tokenized_prompt": ids,
                    "wanted": json.dumps(params),
                }

    def _count(self, request: Request) -> int:
        return len(request.continuation_ids or ()) if request.kind == "choices" and self._forces(request) else 1

    def _forces(self, request: Request) -> bool:
        """Whether a request is answered by log-probabilities of the tokens after the prompt."""
        return request.kind == "force" or (request.kind == "choices" and not self._in_one_pass(request))

    def _answers(self, blocks: list[Any]) -> Iterator[Mapping[str, Any]]:
        """The resulting rows, as they arrive."""
        answers: Iterator[Mapping[str, Any]] | None = None
        while True:
            try:
                with self._quiet():
                    answers = self._asked(blocks) if answers is None else answers
                    row = next(answers, None)
            except Exception as error:
                self._collect_logs()
                cause = getattr(error, "cause", None) or error  # Ray wraps it in tracebacks of two machines
                raise diagnose_engine(cause, self._log, where="backend ray") from error
            if row is None:
                return
            yield row

    def _asked(self, blocks: list[Any]) -> Iterator[Mapping[str, Any]]:
        """The pipeline: parameters, vLLM, reduction of its answers."""
        import ray
        from ray.data.llm import build_processor, vLLMEngineProcessorConfig

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        engine = {name: value for name, value in self._arguments().items() if name != "model"}
        config = vLLMEngineProcessorConfig(
            # Other machines of the cluster must have the same path.
            model_source=str(Path(self.model).absolute()) if Path(self.model).is_dir() else self.model,
            engine_kwargs=engine,
            concurrency=(self.settings.data_parallel_size, self.settings.data_parallel_size),
            batch_size=_TOGETHER,
            max_concurrent_batches=_BATCHES,
            max_tasks_in_flight_per_actor=_BATCHES,
            chat_template_stage=False, tokenize_stage=False, detokenize_stage=False,
            should_continue_on_error=True,
            log_engine_metrics=False,  # needs ray[serve]
            placement_group_config=self._place(),
            runtime_env={"env_vars": {k: v for k, v in os.environ.items() if k.startswith(_SHARED)}},
        )  # fmt: skip
        ray.cloudpickle.register_pickle_by_value(ray_rows)
        light = {"num_cpus": 0.1}
        processor = build_processor(
            config,
            preprocess=ray_rows.prepare_row,
            postprocess=ray_rows.reduce_row,
            preprocess_map_kwargs=light,
            postprocess_map_kwargs=light,
        )
        self._hush()
        rows: Iterator[Mapping[str, Any]] = iter(processor(ray.data.from_arrow_refs(blocks)).iter_rows())
        return rows

    def _read_answer(self, request: Request, rows: Sequence[Mapping[str, Any]]) -> Answer:
        ended = time.time()
        why = next((row["__inference_error__"] for row in rows if row.get("__inference_error__")), None)
        if why:
            return request.answer(error=f"vLLM: {why}"[:500], retry=not why.startswith(_REFUSED), ended=ended)
        parts = [json.loads(row["response"]) for row in rows]
        started = ended - max(part["seconds"] or 0.0 for part in parts)
        prompt = len(request.prompt_ids or ())
        if request.kind == "choices":
            choices = [(float(logprob), bool(greedy)) for part in parts for logprob, greedy in part["choices"]]
            return request.answer(
                choices=choices, prompt_tokens=prompt, completion_tokens=0, started=started, ended=ended
            )
        (part,) = parts
        times: dict[str, Any] = {"started": started, "ended": ended}
        if request.kind == "force":
            places = ({t: (value, rank) for t, value, rank in place} for place in part["places"])
            return request.answer_tokens(places, "vLLM", prompt_tokens=prompt, **times)
        ids = part["token_ids"]
        return request.answer(
            text=part["text"], token_ids=ids, prompt_tokens=prompt, completion_tokens=len(ids),
            finish_reason=self._why_ended(part["text"], ids, request.max_tokens), **times,
        )  # fmt: skip

    def _why_ended(self, text: str, ids: Sequence[int], most: int) -> str | None:
        if len(ids) < most:
            return "stop"
        tokenizer = find_tokenizer(self.settings.tokenizer_of(self.model))
        if tokenizer is None:
            return None
        return explain_ending(text, tokenizer.decode(list(ids), skip_special_tokens=False))

    def _connect(self) -> None:
        import ray

        self._handler = logging.FileHandler(self._log)
        self._hush()
        shared: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        on_sigterm = signal.getsignal(signal.SIGTERM)
        if self._mine:
            self._start(lambda: ray.init("local", include_dashboard=False, **shared))
        else:
            ray.init(self._address, **shared)
        if signal.getsignal(signal.SIGTERM) is not on_sigterm:  # Ray's own would end this process without its order
            signal.signal(signal.SIGTERM, on_sigterm)
        needed = self.settings.tensor_parallel_size * self.settings.data_parallel_size
        gpus = int(ray.cluster_resources().get("GPU", 0))
        if gpus < needed and not self._on_cpu():
            if self._mine:
                raise BackendError(
                    f"{gpus} GPUs found, and tensor_parallel_size times data_parallel_size is {needed}",
                    where="backend ray", hint="Lower them, or name a cluster with ray_address",
                )  # fmt: skip
            log.warning(f"the cluster has {gpus} GPUs; waiting for {needed}")

    def _start(self, init: Callable[[], Any]) -> None:
        """Start Ray, with retries: it gives its processes only 30 seconds, even on a busy machine."""
        import ray

        for left in reversed(range(_STARTS)):
            try:
                init()
            except Exception as error:
                if not left or "timed out during startup" not in str(error):
                    raise
                ray.shutdown()
            else:
                return

    def _hush(self) -> None:
        """Redirect Ray's output to the log. Each of its libraries has its own terminal handler."""
        for name, logger in logging.root.manager.loggerDict.items():
            if name.split(".")[0] == "ray" and isinstance(logger, logging.Logger):
                logger.handlers, logger.propagate = [], name != "ray"
        if self._handler is not None:
            logging.getLogger("ray").handlers = [self._handler]

    def _on_cpu(self) -> bool:
        return version("vllm").endswith("cpu")

    def _place(self) -> dict[str, Any] | None:
        """The resources of a worker; without them Ray Data requests GPUs."""
        if not self._on_cpu():
            return None
        return {"bundles": [{"CPU": 1}] * self.settings.tensor_parallel_size, "strategy": "PACK"}

    def _disconnect(self) -> None:
        ray: Any = sys.modules.get("ray")
        with contextlib.suppress(Exception), self._quiet():
            if ray is not None and ray.is_initialized():
                self._collect_logs()
                ray.shutdown()
        if self._handler is not None:
            self._handler.close()

    def _collect_logs(self) -> None:
        """Copy the workers' output of a local cluster, while its folder is known."""
        import ray

        if not self._mine or self._collected:
            return
        self._collected = True
        with contextlib.suppress(Exception), self._log.open("ab") as out:
            session = ray.get_runtime_context().get_session_name()
            root = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", session, "logs")  # noqa: S108
            for path in sorted(root.glob("worker-*.*")):
                if path.suffix in (".out", ".err") and path.stat().st_size:
                    with open_regular(path) as words:
                        shutil.copyfileobj(words, out)

    def _quiet(self) -> contextlib.AbstractContextManager[None]:
        return redirect_output(self._log)


def explain_ending(text: str, all_text: str) -> str | None:
    """``stop`` or ``length`` for an answer of max_tokens tokens; None if unclear.

    Args:
        text: vLLM's text, without the stop text or end token.
        all_text: The text of all its tokens.
    """
    if text == all_text:
        return "length"
    # An incomplete character also appears in only one of the texts, but is not a stop.
    return "stop" if all_text.startswith(text) and "\ufffd" not in all_text[len(text) :] else None


def _batches(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    import itertools

    while some := list(itertools.islice(rows, size)):
        yield some


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(
        list(rows),
        schema=pa.schema(
            [
                ("number", pa.int64()), ("part", pa.int64()), ("ask", pa.binary()),
                ("forced", pa.int64()), ("each", pa.bool_()),
                ("tokenized_prompt", pa.list_(pa.int32())), ("wanted", pa.string()),
            ]
        ),
    )  # fmt: skip
