"""A server with OpenAI's ``/v1/completions``, mainly vLLM's, and its ``lm_eval`` and ``vllm`` commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shutil import which
from typing import Any
from urllib.parse import urlsplit

from meta_eval.base.addresses import is_loopback, normalise_url
from meta_eval.base.hashing import hash_text
from meta_eval.harness.settings import RunSettings, Scalar, Settings
from meta_eval.pack.backends.base import load_class, require_module
from meta_eval.pack.backends.command import LmEvalBackend, find_model_args

# Default address of `vllm serve`.
DEFAULT_URL = "http://127.0.0.1:8000/v1"

# The model_args for lm_eval's local-completions, and those for both ends. All others are flags of the server.
_OF_CLIENT = frozenset(("ca_cert_path", "use_fast_tokenizer", "verify_certificate"))
_OF_BOTH = frozenset(("revision", "trust_remote_code"))

# Arguments of lm-eval's vllm backend that vLLM calls differently, and those that vLLM does not have.
_RENAMED = {"max_batch_size": "max_num_seqs"}
LM_EVAL_ONLY = frozenset(
    ("chat_template_args", "enable_thinking", "prefix_token_id", "think_end_token", "truncation_side")
)

# What our extra vllm installs. The package itself is on no registry yet, so a hint names what it needs.
VLLM_EXTRA = "'vllm>=0.18'"

# vLLM's arguments of speed and memory.
VLLM_TUNING = frozenset(
    (
        "async_scheduling", "block_size", "cpu_offload_gb", "device", "disable_custom_all_reduce", "disable_log_stats",
        "distributed_executor_backend", "enable_chunked_prefill", "enable_prefix_caching", "enforce_eager",
        "max_batch_size", "max_num_batched_tokens", "max_num_seqs", "num_gpu_blocks_override", "pipeline_parallel_size",
        "swap_space",
    )
)  # fmt: skip

# Served name of a LoRA adapter.
ADAPTER = "finetuned"


class Server(LmEvalBackend):
    """Running servers, or a server that the run starts. The command uses lm-eval's ``local-completions``.

    It sends prompts as token ids with exactly one BOS. The defaults of ``local-completions`` would silently cut prompts
    to 2,047 tokens (``max_length``), send one request at a time, and ask the server for its tokenizer.
    """

    name = "server"
    imports = "tenacity"
    install = "'lm-eval[api]'"
    kinds = frozenset(("generate", "choices", "force"))  # a server may support fewer; the first request shows it
    restricts_tokens = True
    can_serve = True
    args_of = "vLLM"
    tuning = VLLM_TUNING
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        **dict.fromkeys(("pretrained", "model", "served_model_name"), "use model_name"),
        "tokenizer": "use the key tokenizer",
        **dict.fromkeys(("host", "port", "base_url"), "use the key base_url"),
        **{name: f"use the key {name}" for name in (
            "tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_model_len", "dtype", "seed",
            "batch_size",
        )},
        "max_length": "use the key max_model_len",
        "num_concurrent": "use the key concurrency",
        "max_retries": "use the key retries",
        "timeout": "use the key request_timeout",
        "add_bos_token": "it is always True: the prompts of a pack hold no BOS, and exactly one must be there",
        "tokenized_requests": "it is always True: a prompt goes out as the token ids that were checked",
        "tokenizer_backend": "it is always huggingface: the server's own would be asked for each prompt",
        "generation_config": "it is always vllm: the model's own could bring penalties and a limit to the answers",
        "truncate": "no prompt is ever cut",
        "max_gen_toks": "each task sets its own",
    }  # fmt: skip

    def starts_engine(self, settings: Settings) -> bool:
        """Only with ``serve: true``."""
        return self.starts_server(settings)

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.ask.server_client:ServerClient")

    def check_installed(self, settings: Settings) -> None:
        if self.starts_server(settings) and which("vllm") is None:
            require_module("vllm", VLLM_EXTRA, backend=self.name)

    def arguments(self, settings: Settings) -> dict[str, object]:
        """The arguments of ``--model_args``.

        ``max_length`` is a token larger than the context. lm-eval subtracts 1, and cuts prompts that leave too little
        room for the answer.
        """
        return {
            "model": settings.model_name,
            "tokenizer": settings.tokenizer_of(),
            "base_url": make_completions_url((*settings.base_url, DEFAULT_URL)[0]),
            "max_length": settings.max_model_len + 1,
            "tokenized_requests": True,
            "tokenizer_backend": "huggingface",
            "add_bos_token": True,
            "num_concurrent": settings.concurrency,
            "max_retries": settings.retries + 1,  # lm-eval counts the first attempt
            "timeout": max(1, round(settings.request_timeout)),
            "seed": settings.seed,
        }

    def rounding(self, settings: Settings) -> dict[str, str]:
        """A server that runs already is known by its address alone, of which a hash is kept."""
        if self.starts_server(settings):
            return super().rounding(settings)
        return {"server": hash_text(" ".join(settings.base_url or (DEFAULT_URL,)))[:12]}

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:
        arguments = find_model_args(command)
        settings = {f"add_bos_token={added}", "tokenized_requests=True"}
        return settings <= set(arguments) and "--apply_chat_template" not in command

    def command(self, run: RunSettings) -> tuple[str, ...]:
        """The command that runs a pack.

        A request has ``batch_size`` prompts if that is a number, else a single prompt. Answers keep special tokens, as
        in lm-eval's vllm backend. A server removes them by default, but ``<|python_tag|>`` is part of the answers of
        tool tasks.
        """
        client_args = {name: value for name, value in run.model_args.items() if name in _OF_CLIENT | _OF_BOTH}
        size = run.batch_size if isinstance(run.batch_size, int) else 1
        argv = super().command(run.model_copy(update={"model_args": client_args, "batch_size": size}))
        kept_settings = "skip_special_tokens=False,spaces_between_special_tokens=False"
        return (argv[0], "--model", "local-completions", *argv[3:], "--gen_kwargs", kept_settings)

    def serve_command(self, settings: Settings) -> tuple[str, ...]:
        url = urlsplit((*settings.base_url, DEFAULT_URL)[0])
        host = url.hostname if is_loopback(url.geturl()) else None
        return ("vllm", *serve_arguments(settings, settings.model_name, url.port or 8000, host=host))

    def gpus(self, settings: Settings) -> int:
        """Number of GPUs of the server that the run starts. 0 if the server is already running."""
        return super().gpus(settings) if settings.serve else 0

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        sentences = []
        if len(settings.base_url) > 1:
            sentences.append(
                f"lm_eval asks one server, and the command names the first of {len(settings.base_url)}; "
                "`meta-eval run` asks all"
            )
        flags = sorted(name for name in settings.model_args if name not in _OF_CLIENT)
        if flags and not settings.serve:
            sentences.append(
                f"model_args: {', '.join(flags)} are flags of `vllm serve`, which `serve: true` alone starts"
            )
        return tuple(sentences)


def make_completions_url(url: str) -> str:
    """The address of the completions endpoint."""
    return f"{normalise_url(url)}/completions"


def serve_arguments(settings: Settings, model: str, port: int, *, host: str | None) -> tuple[str, ...]:
    """The arguments of ``vllm`` that serve a model for a run.

    ``--generation-config vllm`` ignores the model's generation_config.json. That may hold a repetition penalty, which
    changes greedy answers, or a limit that shortens them. ``--enable-prompt-tokens-details`` reports cached tokens.

    Raises:
        ValueError: model_args has an argument that only lm-eval knows. The text is its name.
    """
    argv = ["serve", model]
    argv += ["--host", host] if host else []
    argv += ["--port", str(port)]
    argv += ["--tensor-parallel-size", str(settings.tensor_parallel_size)]
    argv += ["--data-parallel-size", str(settings.data_parallel_size)]
    argv += ["--dtype", settings.dtype]
    argv += ["--max-model-len", str(settings.max_model_len)]
    argv += ["--gpu-memory-utilization", str(settings.gpu_memory_utilization)]
    argv += ["--seed", str(settings.seed)]
    argv += ["--tokenizer", settings.tokenizer] if settings.tokenizer else []
    argv += ["--generation-config", "vllm", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    for name, value in sorted(settings.model_args.items()):
        if name not in _OF_CLIENT:
            argv += _flag(name, value)
    return tuple(argv)


def _flag(name: str, value: Scalar) -> Sequence[str]:
    """Format an argument: ``enforce_eager: true`` becomes ``--enforce-eager``, false becomes ``--no-enforce-eager``."""
    if name in LM_EVAL_ONLY:
        raise ValueError(name)
    if name == "lora_local_path":
        return "--enable-lora", "--lora-modules", f"{ADAPTER}={value}"
    flag = _RENAMED.get(name, name).replace("_", "-")
    flags: Mapping[str, Sequence[str]] = {"true": (f"--{flag}",), "false": (f"--no-{flag}",)}
    return flags.get(str(value).lower(), (f"--{flag}", str(value)))
