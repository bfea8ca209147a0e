"""The other model classes of lm-eval, under lm-eval's names, and those that cannot answer a pack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.harness.families import list_families
from meta_eval.pack.backends.base import AddedBos, load_class
from meta_eval.pack.backends.server import LmEvalBackend
from meta_eval.sockets import BackendReasons, Settings

_RESERVED = {
    "pretrained": "use model_name",
    "model": "use model_name",
    "dtype": "use the key dtype",
    "max_length": "use the key max_model_len",
    "max_model_len": "use the key max_model_len",
    "batch_size": "use the key batch_size",
    "add_bos_token": "it is always True: the prompts of a pack hold no BOS, and exactly one must be there",
    "max_gen_toks": "each task sets its own",
}

_RESERVED_HF = {
    **_RESERVED,
    "parallelize": "tensor_parallel_size above 1 sets it",
    "truncation": "no prompt may be cut",
}

_RESERVED_SGLANG = {
    **_RESERVED,
    "model_path": "use model_name",
    "context_length": "use the key max_model_len",
    "tp_size": "use the key tensor_parallel_size",
    "dp_size": "use the key data_parallel_size",
    "mem_fraction_static": "use the key gpu_memory_utilization",
}


class LmEvalModel(LmEvalBackend):
    """A model class of lm-eval.

    Args:
        name: Its name in lm-eval's registry.
        install: What to install with pip.
        imports: The module that must be importable.
    """

    kinds = frozenset(("generate", "choices"))  # for a text it keeps only the sum of the log-probabilities
    needs_token_ids = False  # some have only a server; then a warning says that BOS is unchecked
    tokenizer: str | None = None

    def __init__(self, name: str, install: str = "'lm-eval[hf]'", imports: str = "lm_eval") -> None:
        self.name, self.install, self.imports = name, install, imports
        self.reserved = _RESERVED

    def arguments(self, settings: Settings) -> dict[str, object]:
        return {"pretrained": settings.model_name}

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.engines.lm_eval.lm_eval_client:LmEvalClient")

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002
        return (
            f"lm-eval's {self.name} has no add_bos_token that is known here: whether one BOS stands before each "
            "prompt is yours to check; its further arguments go into model_args",
        )


class _Hf(LmEvalModel):
    """transformers, and everything built on lm-eval's class for it."""

    tokenizer = "tokenizer"
    args_of = "transformers"
    tuning = frozenset(
        (
            "attn_implementation", "device", "device_map", "device_map_option", "low_cpu_mem_usage", "max_batch_size",
            "max_cpu_memory", "max_memory_per_gpu", "offload_folder",
        )
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        super().__init__(name, imports="transformers")
        self.reserved = _RESERVED_HF

    def arguments(self, settings: Settings) -> dict[str, object]:
        spread: dict[str, object] = {"parallelize": True} if settings.tensor_parallel_size > 1 else {}
        return {
            "pretrained": settings.model_name,
            "dtype": settings.dtype,
            "max_length": settings.max_model_len,
            "add_bos_token": True,
            **spread,
        }

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        warnings = [
            f"lm-eval's {self.name} takes special tokens out of answers, such as {list_families()[0].tool_call} of the "
            "tool tasks; "
            "meta-eval run keeps them"
        ]
        if settings.tensor_parallel_size > 1:
            warnings.append(
                f"{self.name} spreads the layers of one copy over all GPUs that it sees (parallelize=True), and one "
                "works at a time; vllm and sglang share the work"
            )
        if settings.data_parallel_size > 1:
            warnings.append(
                f"{self.name} runs one copy here, whatever data_parallel_size says: start several with "
                "`meta-eval run --shard`"
            )
        return tuple(warnings)


class _Transformers(_Hf):
    """transformers itself, whose log-probabilities of all tokens are at hand."""

    kinds = frozenset(("generate", "choices", "force"))
    added_bos = AddedBos(until=(0, 4, 9, 2), for_gemma=True)

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.engines.lm_eval.lm_eval_client:TransformersClient")


class _Sglang(LmEvalModel):
    """SGLang inside lm_eval's process."""

    tokenizer = "tokenizer_path"
    added_bos = AddedBos(for_gemma=True)

    def __init__(self) -> None:
        super().__init__("sglang", "'sglang[all]'", "sglang")
        self.reserved = _RESERVED_SGLANG

    def arguments(self, settings: Settings) -> dict[str, object]:
        return {
            "pretrained": settings.model_name,
            "dtype": settings.dtype,
            "context_length": settings.max_model_len,
            "tp_size": settings.tensor_parallel_size,
            "dp_size": settings.data_parallel_size,
            "mem_fraction_static": settings.gpu_memory_utilization,
            "add_bos_token": True,
        }

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002
        return (
            "sglang needs lm-eval 0.4.13: older ones hand it max_tokens, which its sampling does not know",
            "mem_fraction_static is gpu_memory_utilization, and sglang keeps more besides it than vllm does: lower it "
            "when memory runs out",
        )


class _Trtllm(LmEvalModel):
    """TensorRT-LLM."""

    tokenizer = "tokenizer"

    def starts_engine(self, settings: Settings) -> bool:  # noqa: ARG002 (it asks one that runs)
        return False

    def arguments(self, settings: Settings) -> dict[str, object]:
        return {
            "model": settings.model_name,
            "dtype": settings.dtype,
            "max_input_len": settings.max_model_len,
            "tensor_parallel_size": settings.tensor_parallel_size,
            "add_bos_token": True,
            "seed": settings.seed,
        }

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002
        return ()


class _Server(LmEvalModel):
    """An OpenAI-compatible server with lm-eval's own client."""

    tokenizer = "tokenizer"
    added_bos: AddedBos | None = AddedBos()

    def starts_engine(self, settings: Settings) -> bool:  # noqa: ARG002 (the server runs already)
        return False

    def arguments(self, settings: Settings) -> dict[str, object]:
        return {
            "model": settings.model_name,
            "max_length": settings.max_model_len,
            "add_bos_token": True,
            "tokenized_requests": True,
            "seed": settings.seed,
            **({"base_url": settings.base_url[0]} if settings.base_url else {}),
        }

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002
        return ("backend server asks the same servers with retries, and keeps why each answer ended",)


# The models, named as the entry points name them. Names in lm-eval 0.4.11 to 0.4.13, grouped by the arguments of their
# classes. A test compares them with lm-eval's registry, which takes seconds to import. First HFLM:
HF, HF_AUTO, HUGGINGFACE = map(_Transformers, ("hf", "hf-auto", "huggingface"))

# The classes that pass their arguments to it:
HF_MISTRAL3, HF_MULTIMODAL, HABANA, IPEX, MAMBA_SSM, OPENVINO, STEERED = map(
    _Hf, ("hf-mistral3", "hf-multimodal", "habana", "ipex", "mamba_ssm", "openvino", "steered")
)
SGLANG = _Sglang()
TRTLLM = _Trtllm("trtllm", "tensorrt_llm", "tensorrt_llm")
LOCAL_COMPLETIONS, OPENAI_COMPLETIONS, SGLANG_GENERATE = (
    _Server(name, "'lm-eval[api]'", "tenacity")
    for name in ("local-completions", "openai-completions", "sglang-generate")
)
ANTHROPIC_COMPLETIONS, GGML, GGUF, MEGATRON_LM, NEMO_LM, NEURONX = map(
    LmEvalModel, ("anthropic-completions", "ggml", "gguf", "megatron_lm", "nemo_lm", "neuronx")
)
ONNXRUNTIME, ONNXRUNTIME_GENAI, TEXTSYNTH, WATSONX_LLM, WINML = map(
    LmEvalModel, ("onnxruntime", "onnxruntime-genai", "textsynth", "watsonx_llm", "winml")
)


_CHAT = "it puts a chat template around prompts that bring their own; `backend: chat` asks a chat endpoint"

# Models of lm-eval that cannot answer a pack, with the reason.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "anthropic-chat", "anthropic-chat-completions", "litellm", "litellm-chat", "litellm-chat-completions",
            "local-chat-completions", "openai-chat-completions",
        ),
        _CHAT,
    ),
    "dummy": "it answers at random",
    "hf-audiolm-qwen": "it is asked with sounds",
}  # fmt: skip


class LmEvalReasons(BackendReasons):
    """Says why one of them is no backend."""

    def find(self, name: str) -> str | None:
        return REFUSED.get(name)
