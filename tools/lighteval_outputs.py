"""Write tests/data/lighteval_outputs: lighteval's own details of three tiny tasks of ours.

``python tools/lighteval_outputs.py PYTHON FOLDER``: PYTHON is an interpreter with lighteval 0.13.0 (``pip install
lighteval==0.13.0``) and torch for a CPU. FOLDER is the output. The model is a Llama of random weights with a byte
tokenizer. The folder ``model`` beside the details keeps it without its weights.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = "org__Tiny-Llama"
ROWS = {
    "colours": [
        {"question": f"Which of these is the colour of pebble {n}?", "options": [f"grey {n}", "green", "a dark red"],
         "answer": n % 3} for n in range(9)
    ],
    "letters": [
        {"question": f"Which letter stands for {n}?\nA. one\nB. two\nC. three\nD. four\nAnswer:",
         "options": [" A", " B", " C", " D"], "answer": n % 4} for n in range(8)
    ],
    "words": [{"question": f"Say word {n}.", "options": [f"word {n}"], "answer": 0} for n in range(6)],
}  # fmt: skip

TASKS = """
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.normalizations import LogProbCharNorm, LogProbTokenNorm
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc


def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["question"], choices=line["options"], gold_index=line["answer"])


def task(name, metrics, **settings):
    return LightevalTaskConfig(
        name=name, prompt_function=prompt, hf_repo="DATA/" + name, hf_subset="default", metrics=metrics,
        hf_avail_splits=["train"], evaluation_splits=["train"], few_shots_split="train", few_shots_select="sequential",
        **settings,
    )


TASKS_TABLE = [
    task("colours", [
        Metrics.loglikelihood_acc,
        Metrics.loglikelihood_acc(sample_params={"logprob_normalization": LogProbCharNorm()}),
        Metrics.loglikelihood_acc(sample_params={"logprob_normalization": LogProbTokenNorm()}),
    ]),
    task("letters", [Metrics.loglikelihood_acc]),
    task("words", [Metrics.exact_match], generation_size=8, stop_sequence=["\\n"]),
]
"""

# lighteval would import all its task modules. One downloads a file and one calls the hub.
LAUNCH = """
import sys
from lighteval.tasks.registry import Registry
Registry._load_from_files = staticmethod(lambda files, module: {})
Registry._load_from_subdirs = staticmethod(lambda folders: {})
from lighteval.__main__ import app
sys.argv[0] = "lighteval"
app()
"""

MAKE_MODEL = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(vocab_size=268, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=0, eos_token_id=1)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
    from small_model import write_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, rows in ROWS.items():
            (place / "data" / name).mkdir(parents=True)
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (place / "data" / name / "train.jsonl").write_text(lines, encoding="utf-8")
        (place / "tasks.py").write_text(TASKS.replace("DATA", str(place / "data")), encoding="utf-8")
        model = write_tokenizer(place / MODEL)
        subprocess.run([options.python, "-c", MAKE_MODEL, str(model)], check=True)
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "home"), "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run(
            [
                options.python, "-c", LAUNCH, "accelerate",
                f"model_name={MODEL},batch_size=2,dtype=float32,override_chat_template=false,add_special_tokens=true",
                "colours|2,letters|0,words|1", "--custom-tasks", str(place / "tasks.py"),
                "--output-dir", str(place / "out"), "--save-details",
            ],
            cwd=place, env=environment, check=True,
        )  # fmt: skip
        for path in (place / "out").rglob("results_*.json"):
            path.write_text(path.read_text(encoding="utf-8").replace(f"{place}/", ""), encoding="utf-8")
        shutil.rmtree(options.folder, ignore_errors=True)
        shutil.copytree(place / "out", options.folder)
        shutil.copytree(model, options.folder / "model", ignore=shutil.ignore_patterns("*.safetensors", "config.json"))


if __name__ == "__main__":
    main()
