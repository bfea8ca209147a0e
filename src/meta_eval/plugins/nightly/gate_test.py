"""A gate as a test of pytest. The core's hook, ``meta_eval.pytest_plugin``, imports this when it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meta_eval import api
from meta_eval.reports.views import TextView
from meta_eval.sockets import UserError

if TYPE_CHECKING:
    from meta_eval.reports.report import Report


class GateError(Exception):
    """The decision of a gate is not SHIP, or it cannot be made. The text is the report."""


def make_item(
    session: pytest.Session, gate: str, results: Sequence[str], baseline: Sequence[str], pack: str | None
) -> pytest.Item:
    """The test of a gate on the command line.

    Args:
        session: The session that it is a test of.
        gate: The file of the gate.
        results, baseline: Places of results; without ``baseline`` the recorded answers of the pack are it.
        pack: The pack; None for none.
    """
    options = {"gate": gate, "pack": pack}
    item: pytest.Item = _GateItem.from_parent(
        session, name=f"gate {gate}", results=results, baseline=list(baseline) or None, options=options
    )
    return item


def make_judge() -> Callable[..., Report]:
    """The function that the fixture ``meta_eval_gate`` is."""

    def judge(results: Any, baseline: Any = None, **options: Any) -> Report:
        __tracebackhide__ = True
        try:
            return _judge(results, baseline, options)
        except GateError as error:
            report = str(error)
        pytest.fail(report, pytrace=False)

    return judge


def _judge(results: Any, baseline: Any, options: dict[str, Any]) -> Report:
    chosen = {name: value for name, value in options.items() if value is not None}
    try:
        report = api.report(results, **chosen) if baseline is None else api.compare(baseline, results, **chosen)
    except UserError as error:
        raise GateError(str(error)) from None
    document = report.document()
    if document.outcome != "SHIP":
        raise GateError(TextView().render(document))
    return report


class _GateItem(pytest.Item):
    """The test of a gate on the command line."""

    def __init__(
        self, *, results: Sequence[str], baseline: Sequence[str] | None, options: dict[str, Any], **keywords: Any
    ) -> None:
        super().__init__(**keywords)
        self._results, self._baseline, self._options = list(results), baseline, options

    def runtest(self) -> None:
        _judge(self._results, self._baseline, self._options)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, GateError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return Path(str(self._options["gate"])), None, self.name
