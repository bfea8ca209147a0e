"""An evals dataset made again of a part of its rows is one that prepare and verify take."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from packs import prepare
from places import REPOSITORY

from meta_eval.pack.verify import verify

sys.path.insert(0, str(REPOSITORY / "tools" / "grader_validation"))
from rebuild import details_row, write_details


@pytest.mark.plugin("meta")
def test_rebuilt_rows_can_be_prepared_and_verified(tmp_path: Path) -> None:
    prompts = {"Say hello without commas.": ("Hello there", True), "Say goodbye without commas.": ("Well, bye", False)}
    rows = [
        details_row("ifeval", question=prompt, prompt=f"<user>{prompt}", output=output, is_correct=correct)
        for prompt, (output, correct) in prompts.items()
    ]
    dataset = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_details(dataset, "ifeval__strict", rows)
    original = tmp_path / "original.jsonl"
    lines = [
        {"key": key, "prompt": prompt, "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
        for key, prompt in enumerate(prompts)
    ]
    original.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pack = prepare(
        tmp_path / "work_dir", "meta_ifeval", evals_dataset=str(dataset), originals={"ifeval": {"id": str(original)}}
    )
    report = verify(pack).tasks["meta_ifeval"]
    assert (report.status, report.graded_score) == ("passed", 0.5)


def test_a_column_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no such column: is_right"):
        details_row("x", question="q", prompt="p", output="o", is_correct=True, is_right=True)
