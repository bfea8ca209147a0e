"""``meta-eval compare --texts``: compare the greedy texts of two runs instead of their verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.errors import ConfigError
from meta_eval.base.logs import report_progress
from meta_eval.cli.console import show_progress, show_result, write_document

if TYPE_CHECKING:
    from meta_eval.reports.views import View
    from meta_eval.verb_options import JudgingOptions


def check_text_options(texts: bool, tables: Sequence[Path], refused: Mapping[str, object]) -> None:
    """Refuse options that have no effect.

    Args:
        texts: Whether ``--texts`` is given.
        tables: Those of ``--tokens``.
        refused: Values of options that only verdicts use, by option.

    Raises:
        ConfigError: An option has no effect.
    """
    if tables and not texts:
        raise ConfigError("has no effect without --texts", where="--tokens", hint="Add --texts")
    useless = next((name for name, value in refused.items() if value), None)
    if texts and useless:
        raise ConfigError("has no effect with --texts", where=useless, hint="Leave it out: texts have no verdicts")


def compare_texts(
    a: Sequence[Path], b: Sequence[Path], chosen: JudgingOptions, tables: Sequence[Path],
    views: Sequence[tuple[Path, View]], *, as_json: bool,
) -> int:  # fmt: skip
    """Compare the texts, write the views and show the result. Return the exit code."""
    from meta_eval import api

    with show_progress("reading"):
        report = api.compare_texts(
            a, b, tokens=tables, pack=chosen.pack, gate=chosen.gate, tasks=chosen.tasks,
            skip_damaged=chosen.skip_damaged,
        )  # fmt: skip
        document = report.document()
        report_progress("writing")
        write_document(document, views)
    show_result(document, as_json=as_json)
    return report.exit_code
