"""Outputs of llama-perplexity: what is read of them, and how far a copy is from its baseline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import perplexity_logs as logs
import pytest
from command import cli
from forked import started
from marks import each, thorough

from meta_eval.base.errors import UserError
from meta_eval.plugins.tokens.api import perplexity_report

TEXT = logs.draw_text()


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def report(folder: Path, log: str | bytes, baseline: str | bytes | None = None) -> dict[str, Any]:
    other = None if baseline is None else write(folder / "baseline.log", baseline)
    return perplexity_report(write(folder / "copy.log", log), baseline=other).to_json()


def test_two_logs_give_the_shift_with_an_interval_over_blocks(tmp_path: Path) -> None:
    found = report(tmp_path, logs.write_plain(TEXT.copy), logs.write_plain(TEXT.base))
    compared = found["comparison"]
    differences = TEXT.copy - TEXT.base
    assert compared["shift"]["value"] == pytest.approx(differences.mean(), abs=compared["rounding"])
    blocks = differences.reshape(10, 20).mean(axis=1)
    assert compared["shift"]["standard_error"] == pytest.approx(blocks.std(ddof=1) / 10**0.5, rel=0.02)
    reach = 3.2498 * blocks.std(ddof=1) / 10**0.5  # Student's t with nine degrees of freedom
    assert compared["shift"]["interval"]["lower"] == pytest.approx(differences.mean() - reach, abs=3e-4)
    assert compared["baseline"]["perplexity"] == pytest.approx(np.exp(TEXT.base.mean()), abs=1e-4)
    assert compared["divergence"] is None
    assert "less likely" in found["summary"]


def test_a_table_has_both_models(tmp_path: Path) -> None:
    compared = report(tmp_path, logs.write_table(TEXT))["comparison"]
    assert compared["is_from_base"]
    assert compared["shift"]["value"] == pytest.approx((TEXT.copy - TEXT.base).mean(), abs=1e-5)
    assert compared["divergence"]["value"] == pytest.approx(TEXT.divergence.mean(), abs=1e-5)
    assert compared["changed"]["value"] == pytest.approx(1 - TEXT.same.mean(), abs=1e-5)
    assert compared["divergence"]["interval"]["lower"] > 0
    assert compared["printed_errors"] == pytest.approx([0.00123, 0.00045, 0.0009])


def test_every_form_gives_the_same_figures(tmp_path: Path) -> None:
    stamped = re.sub("^", "0.12.345.678 I ", logs.write_table(TEXT, every=True), flags=re.MULTILINE)
    forms = {
        "headed rows": logs.write_table(TEXT, every=True),
        "the first form": logs.write_old_table(TEXT),
        "line ends of Windows": logs.write_table(TEXT).replace("\n", "\r\n"),
        "colours": logs.write_table(TEXT).replace("   1 ", "\x1b[32m   1 \x1b[0m", 1),
        "times": stamped,
        "times of another program": re.sub("^", "2026-01-02T03:04:05Z ", logs.write_table(TEXT), flags=re.MULTILINE),
        "progress between rows": logs.write_table(TEXT).replace("\n  10 ", "\nggml_backend: busy 97 %\n  10 "),
        "another encoding": logs.write_table(TEXT).encode("latin-1", "replace"),
        "a broken encoding": logs.write_table(TEXT, sign="Â±"),
        "another name of what is behind": logs.write_table(TEXT) + "llama_perf_context_print: total time = 1 ms\n",
        "a mark of the byte order": "\ufeff" + logs.write_table(TEXT),
    }
    plain = {
        "plain": logs.write_plain(TEXT.copy),
        "lines": logs.write_lines(TEXT.copy),
        "stdout alone": logs.write_plain(TEXT.copy, header=False, end=False),
        "a chunk a line": logs.write_plain(TEXT.copy).replace(",[", ",\n["),
        "ik_llama.cpp": logs.write_plain(TEXT.copy).replace("PPL =", "PPL over 200 chunks for n_ctx=512 ="),
        "plain with times": re.sub("^", "0.12.345.678 I ", logs.write_plain(TEXT.copy), flags=re.MULTILINE),
        "strided": logs.write_plain(TEXT.copy).replace(" n_ctx=512,", ""),
    }
    for name, text in forms.items():
        compared = report(tmp_path, text)["comparison"]
        assert compared["shift"]["value"] == pytest.approx((TEXT.copy - TEXT.base).mean(), abs=2e-5), name
        assert compared["changed"]["value"] == pytest.approx(1 - TEXT.same.mean(), abs=2e-5), name
    for name, text in plain.items():
        found = report(tmp_path, text, logs.write_plain(TEXT.base))["comparison"]
        assert found["shift"]["value"] == pytest.approx((TEXT.copy - TEXT.base).mean(), abs=4e-5), name


def test_two_tables_of_one_base_say_which_copy_is_nearer(tmp_path: Path) -> None:
    nearer = replace(TEXT, copy=TEXT.base + (TEXT.copy - TEXT.base) / 2, divergence=TEXT.divergence / 2)
    compared = report(tmp_path, logs.write_table(nearer), logs.write_table(TEXT))["comparison"]
    assert not compared["is_from_base"]
    assert compared["shift"]["value"] == pytest.approx(-(TEXT.copy - TEXT.base).mean() / 2, abs=2e-5)
    assert compared["divergence"]["interval"]["upper"] < 0
    assert compared["divergence"]["value"] == pytest.approx(-TEXT.divergence.mean() / 2, abs=2e-5)


def test_a_copy_equal_to_its_base_has_no_shift_though_its_error_is_no_number(tmp_path: Path) -> None:
    equal = replace(TEXT, copy=TEXT.base, divergence=0 * TEXT.divergence, same=np.ones(len(TEXT.same)))
    table = logs.write_table(equal).replace("   0.00123", "      -nan")
    compared = report(tmp_path, table)["comparison"]
    assert compared["shift"]["interval"] == {"lower": 0, "upper": 0}
    assert compared["changed"]["value"] == pytest.approx(0)
    assert compared["printed_errors"][0] is None


def test_what_ends_early_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = logs.write_plain(TEXT.copy)
    cut = whole[: whole.index("[151]")]
    found = report(tmp_path, cut, logs.write_plain(TEXT.base))
    assert found["comparison"]["chunks"] == 150
    assert found["comparison"]["shift"]["value"] == pytest.approx((TEXT.copy - TEXT.base)[:150].mean(), abs=4e-5)
    assert found["notes"] == [
        "copy.log ends at chunk 150 of 200", "compared over the first 150 chunks, which both have",
    ]  # fmt: skip
    table = logs.write_table(TEXT, end=False)
    assert "no end" in report(tmp_path, table[: table.index("\n 120 ")])["notes"][0]


@each("chunks, has_interval, note", [(31, False, "too few"), (32, True, "too narrow"), (99, True, "too narrow")])
def test_few_chunks_have_a_wide_interval_or_none(
    tmp_path_factory: pytest.TempPathFactory, chunks: int, has_interval: bool, note: str
) -> None:
    found = report(tmp_path_factory.mktemp("logs"), logs.write_table(logs.draw_text(chunks)))
    assert (found["comparison"]["shift"]["interval"] is not None) is has_interval
    assert note in found["notes"][0]


def test_so_few_chunks_do_not_say_whether_the_texts_differ(tmp_path: Path) -> None:
    """Of eight such chunks another text is refused."""
    other = logs.draw_text(seed=7)
    found = report(tmp_path, logs.write_plain(other.copy[:7]), logs.write_plain(TEXT.base[:7]))
    assert not any("other chunks likely" in note for note in found["notes"])


def swap(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


PLAIN, TABLE = logs.write_plain(TEXT.copy), logs.write_table(TEXT)
SECOND_CHUNK = re.search(r"\[2\][\d.]+,", PLAIN)
assert SECOND_CHUNK
LAST_SHARE = f"{100 * TEXT.same.mean():6.3f} ±  0.090 %"

REFUSED: list[tuple[str | bytes, str]] = [
    ("", "neither a pack nor an output of llama-perplexity"),
    ("hello\n", "neither a pack"),
    (logs.HEADER, "neither a pack"),
    (b"PAR1\0\0\0", "no text"),
    (PLAIN.encode("utf-16"), "Save it as UTF-8"),
    ("hellaswag_score : loaded 400 tasks from prompt.\n1\t100.00000000\n", "output of --hellaswag"),
    ("winogrande_score : loaded 100 tasks\n1\t0.5\n", "output of --winogrande"),
    ("Final Winogrande score(100 tasks): 51.0000 +/- 5.0\n", "output of --winogrande"),
    ("multiple_choice_score: there are 600 tasks in prompt\n", "output of --multiple-choice"),
    ("compute_imatrix: computing over 10 chunks\n", "output of llama-imatrix"),
    ("perplexity: you need at least 1024 tokens to evaluate perplexity with a context of 512\n", "shorter than 1024"),
    (PLAIN.replace(SECOND_CHUNK[0], "[2]nan,"), "chunk 2 has nan"),
    (PLAIN.replace(SECOND_CHUNK[0], "[2]-nan(ind),"), "chunk 2 has -nan"),
    (PLAIN.replace(SECOND_CHUNK[0], "[2]inf,"), "chunk 2 has inf"),
    (PLAIN.replace(SECOND_CHUNK[0], "[2]0.0000,"), "chunk 2 has 0.0000"),
    (PLAIN.replace(SECOND_CHUNK[0], "[2]-1.0000,"), "chunk 2 has -1.0000"),
    (PLAIN.replace(SECOND_CHUNK[0], ""), "chunk 3 follows chunk 1"),
    (PLAIN.replace("[1]", "[2]"), "chunk 2 follows chunk 0"),
    (PLAIN + PLAIN, "holds several runs"),
    (TABLE + TABLE, "holds several runs"),
    (PLAIN + TABLE, "holds several runs"),
    (logs.write_lines(TEXT.copy) + PLAIN, "holds several runs"),
    (PLAIN.replace("over 200 chunks", "over 100 chunks"), "announces 100"),
    (re.sub(r"PPL = [\d.]+", "PPL = 99.0000", PLAIN), "its end says 99.0000"),
    (re.sub(r"PPL\(Q\)( +): +[\d.]+", r"PPL(Q)\1: 99.000000", TABLE), "its end says 99.000000"),
    (re.sub(r"\n 120 .*", "", TABLE), "chunk 121 follows chunk 119"),
    (TABLE.replace(LAST_SHARE, "123.456 ±  0.090 %"), "chunk 56 has a share of same likeliest tokens of 123.456 %. It is"),
    (re.sub(r"(\n   1 +[\d.]+ ± +[\d.]+) +-?[\d.]+", r"\1        nan", TABLE), "chunk 1 has nan"),
    (swap("0.5000       0.0", "0.5000    9999.0")(TABLE), "chunk 1 has 9999"),
]  # fmt: skip

OTHER = logs.draw_text(seed=7)
PAIRS: list[tuple[str, str, str]] = [
    (PLAIN, logs.write_plain(TEXT.base, context=1024), "context of 512 tokens, and the baseline 1024"),
    (PLAIN, swap("= 32000", "= 128256")(logs.write_plain(TEXT.base)), "vocabulary of 32000 tokens, and the baseline"),
    (PLAIN, logs.write_plain(TEXT.base[:150]), "200 chunks, and the baseline 150"),
    (PLAIN, logs.write_plain(OTHER.base), "so the texts differ"),
    (TABLE, logs.write_table(OTHER), "another base than the baseline"),
    (TABLE, logs.write_table(replace(TEXT, base=TEXT.base + 0.01)), "another base than the baseline"),
    (logs.write_table(logs.draw_text(150)), TABLE, "150 chunks, and the baseline 200"),
]


@each("case", range(len(REFUSED)))
def test_other_files_and_broken_logs_are_refused(tmp_path_factory: pytest.TempPathFactory, case: int) -> None:
    text, said = REFUSED[case]
    with pytest.raises(UserError, match=re.escape(said)):
        report(tmp_path_factory.mktemp("logs"), text)


@each("case", range(len(PAIRS)))
def test_logs_of_other_chunks_are_not_compared(tmp_path_factory: pytest.TempPathFactory, case: int) -> None:
    log, baseline, said = PAIRS[case]
    with pytest.raises(UserError, match=re.escape(said)):
        report(tmp_path_factory.mktemp("logs"), log, baseline)


def test_a_broken_model_is_compared_and_its_text_is_doubted(tmp_path: Path) -> None:
    broken = 8 + OTHER.base
    found = report(tmp_path, logs.write_plain(broken), logs.write_plain(TEXT.base))
    assert found["comparison"]["shift"]["value"] > 7
    assert "the texts differ, or a model is broken" in found["notes"][0]


def test_the_command_reports_and_decides_nothing(tmp_path: Path) -> None:
    write(tmp_path / "q4.log", TABLE)
    write(tmp_path / "f16.log", logs.write_plain(TEXT.base))
    ran = cli("fidelity", "q4.log", "--baseline", "f16.log", "--html", "page.html", "--json", cwd=tmp_path)
    assert ran.returncode == 0
    found = json.loads(ran.stdout)["report"]
    assert (found["outcome"], found["tables"][0]["key"]) == (None, "comparison")
    assert "Nothing is decided" in (tmp_path / "page.html").read_text()
    alone = cli("fidelity", "q4.log", cwd=tmp_path)
    assert "q4.log beside its base" in alone.stdout
    assert "as if tokens were" in alone.stdout


@pytest.mark.parametrize("words", [("pipe",), ("q4.log", "--baseline", "pipe")])
def test_a_log_that_is_a_pipe_is_named_as_such(tmp_path: Path, words: tuple[str, ...]) -> None:
    write(tmp_path / "q4.log", TABLE)
    os.mkfifo(tmp_path / "pipe")
    ran = cli("fidelity", *words, cwd=tmp_path)
    assert ran.returncode == 2
    assert "pipe: cannot be read: it is not a regular file. Save what" in " ".join(ran.stderr.split())


@each("options, said", [
    (("--margin", "0.1"), "nothing is asked or decided"),
    (("--no-ask",), "nothing is asked or decided"),
    (("--set", "model_name=x"), "nothing is asked or decided"),
    (("--docs", "5"), "nothing is asked or decided"),
    (("--baseline", "q4.log"), "is the log itself"),
    (("--baseline", "no.log"), "there is no such file"),
    (("--baseline", "."), "a folder, not a file"),
    (("--html", "q4.log"), "q4.log"),
    (("--view", "no=x"), "unknown view"),
])  # fmt: skip
def test_what_does_not_fit_a_log_is_one_message(
    tmp_path_factory: pytest.TempPathFactory, options: tuple[str, ...], said: str
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    write(folder / "q4.log", TABLE)
    ran = cli("fidelity", "q4.log", *options, cwd=folder)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert ran.stderr.count("error: ") == 1
    assert (folder / "q4.log").read_text() == TABLE


@thorough
def test_the_interval_holds_the_true_shift_of_correlated_chunks(tmp_path: Path) -> None:
    missed = 0
    for seed in range(300):
        text = logs.draw_text(250, shift=0.02, seed=seed)
        bounds = report(tmp_path, logs.write_table(text))["comparison"]["shift"]["interval"]
        missed += not bounds["lower"] <= 0.02 <= bounds["upper"]
    assert missed <= 12


def test_two_logs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder, values in (("q4", TEXT.copy), ("f16", TEXT.base)):
        (tmp_path / folder / "run").mkdir(parents=True)
        write(tmp_path / folder / "run" / "ppl.log", logs.write_plain(values))
    ran = cli("fidelity", "q4/run/ppl.log", "--baseline", "f16/run/ppl.log", cwd=tmp_path)
    assert "q4/run/ppl.log beside f16/run/ppl.log" in ran.stdout


@thorough
def test_a_log_that_memory_does_not_hold_is_one_message(tmp_path: Path) -> None:
    """With 24 MiB more than the process has at its start, where a plain log is read."""
    plain = logs.write_plain(TEXT.base)
    base = write(tmp_path / "base.log", plain)
    for log, code, words in (
        (plain, 0, "copy.log beside base.log\n"),
        (plain + "x\n" * 2**22, 2, "error: memory ran out. Free some or allow more (ulimit -v), and run the same"),
    ):
        running = started("fidelity", write(tmp_path / "copy.log", log), "--baseline", base, memory=24 * 2**20)
        out, said = running.communicate()
        assert running.returncode == code
        assert (out + said).startswith(words) and said.count("error: ") == (code == 2)
