"""What an engine dies of is one message with a hint, and the end of its log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from noted import noted

from meta_eval.ask.served import diagnose_engine

GATED = (
    "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
    "https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct."
)


@pytest.mark.parametrize(
    ("message", "what", "hint"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", "not enough", "max_model_len"),
        ("ValueError: Free memory on device (3.1/79.2 GiB) on startup is less than desired GPU memory", "not enough",
         "gpu_memory_utilization"),
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "KV cache",
         "max_model_len"),
        ("ValueError: To serve at least one request with the model's max seq len (131072), 16.00 GiB KV cache is needed, "
         "which is larger than the available KV cache memory (3.20 GiB)", "KV cache", "max_model_len"),
        ("ValueError: User-specified max_model_len (200000) is greater than the derived max_model_len", "own context",
         "max_model_len"),
        ("OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
         "port", "free port"),
        (GATED, "gated", "hf auth login"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.", "no such model", "model_name"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "CUDA driver", "nvidia-smi"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)", "CUDA driver", "driver"),
        ("RuntimeError: Failed to infer device type", "no GPU", "CUDA_VISIBLE_DEVICES"),
        ("RuntimeError: Device string must not be empty", "no GPU", "CUDA_VISIBLE_DEVICES"),
        ("OSError: [Errno 28] No space left on device", "disk is full", "kept"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("logged", [False, True])
def test_what_is_known_comes_with_its_hint(tmp_path: Path, message: str, what: str, hint: str, logged: bool) -> None:
    """Python is told of it, or only the log of a process that ended."""
    log = tmp_path / "serve.log"
    log.write_text("INFO starting\n" + (f"{message}\nERROR exiting\n" if logged else ""))
    error = diagnose_engine(None if logged else RuntimeError(message), log, where="backend vllm")
    assert error.where == "backend vllm"
    assert what in error.what
    assert hint in (error.hint or "")
    assert str(log) in (error.hint or "")


def test_what_is_unknown_is_shown_with_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)) + "\x1b[31mthe last one\x1b[0m\n")
    with noted() as notes:
        error = diagnose_engine(None, log, where="vllm serve")
    assert "the last one" in error.what
    assert sum("line " in note for note in notes) == 7
    assert not any("\x1b" in note for note in [*notes, str(error)])


_PARENT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        ("(EngineCore pid=32) ERROR 11-27 14:16:41 [core.py:1330] ModuleNotFoundError: No module named 'flashinfer'",
         "ModuleNotFoundError: No module named 'flashinfer'"),
        ("(EngineCore pid=32) ModuleNotFoundError: No module named 'flashinfer'",
         "ModuleNotFoundError: No module named 'flashinfer'"),
        ("(Worker_TP1 pid=33) ERROR 11-27 14:16:41 [multiproc_executor.py:8] ValueError: 9 heads for 2 cards\n"
         "(EngineCore pid=32) Exception: WorkerProc initialization failed due to an exception in a background process. "
         "See stack trace for root cause.", "ValueError: 9 heads for 2 cards"),
        ("[rank0]: torch.distributed.DistBackendError: NCCL error", "torch.distributed.DistBackendError: NCCL error"),
        ("\x1b[36m(EngineCore pid=32) \x1b[0mException: no such head", "Exception: no such head"),
        ("(EngineCore pid=32) RuntimeError: " + "x" * 9000, "RuntimeError: " + "x" * 486),
        ("(EngineCore pid=32) ValueError: key hf_" + "a1b2" * 8, "ValueError: key …"),
    ],
)  # fmt: skip
def test_the_cause_is_that_of_the_process_that_failed_first(
    tmp_path: Path, in_process: bool, raised: str, cause: str
) -> None:
    """vLLM's parent process knows only that its child ended."""
    log = tmp_path / "serve.log"
    log.write_text(
        "(APIServer pid=31) WARNING 11-27 14:16:19 [system_utils.py:299] may cause fd limit errors like `OSError: no`\n"
        "(EngineCore pid=32) ERROR 11-27 14:16:41 [core.py:1330]     from flashinfer import (\n"
        f"{raised}\n(EngineCore pid=32) Process EngineCore:\n(APIServer pid=31) {_PARENT}\n"
    )
    error = diagnose_engine(RuntimeError(_PARENT) if in_process else None, log, where="vllm serve")
    assert error.what == cause


@pytest.mark.parametrize(
    "text", ["a" * 60_000, "a." * 30_000, "ERROR " + "] a.b" * 15_000, "(" * 60_000, "aError" * 10_000]
)
def test_no_log_takes_long_to_be_searched(tmp_path: Path, text: str) -> None:
    log = tmp_path / "serve.log"
    log.write_text(f"{text}\n(APIServer pid=31) {_PARENT}\n")
    began = time.process_time()
    assert "root cause above" in diagnose_engine(None, log, where="vllm serve").what
    assert time.process_time() - began < 2


def test_without_another_cause_the_line_that_points_to_it_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(f"INFO starting\n(APIServer pid=31) {_PARENT}\n")
    assert "root cause above" in diagnose_engine(None, log, where="vllm serve").what


def test_what_left_no_log_is_told_by_itself(tmp_path: Path) -> None:
    error = diagnose_engine(KeyError("boom"), tmp_path / "none.log", where="backend ray")
    assert (error.what, error.hint) == ("KeyError: 'boom'", None)


def test_a_token_in_a_log_is_hidden_before_its_line_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("x" * 285 + " hf_" + "a1b2" * 8 + "\n" + "y" * 485 + " hf_" + "a1b2" * 8 + "\n")
    with noted() as notes:
        error = diagnose_engine(None, log, where="vllm serve")
    assert not [text for text in [*notes, str(error)] if "hf_a" in text]
