"""A plug-in of pytest: a gate as a test. Installed with meta-eval, pytest finds it by itself.

On the command line, the gate is one more test::

    pytest --meta-eval-gate gate.yaml --meta-eval-results eval_results --meta-eval-pack work_dir

In a test, the fixture ``meta_eval_gate`` is a function that fails the test unless the decision is SHIP::

    def test_fp8_is_as_good(meta_eval_gate):
        meta_eval_gate("results_fp8", baseline="results_bf16", margin=1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from meta_eval.report.model import Report

_GATE, _RESULTS, _BASELINE, _PACK = (
    f"--meta-eval-{name}" for name in ("gate", "results", "baseline", "pack")
)  # the options, in the order of use


class GateError(Exception):
    """The decision of a gate is not SHIP, or it cannot be made. The text is the report."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("meta-eval", "gate on evaluation results (meta-eval)")
    group.addoption(_GATE, metavar="FILE", help="A gate.yaml: adds a test that fails unless the decision is SHIP.")
    group.addoption(
        _RESULTS, action="append", default=[], metavar="RESULTS", help="The run that is judged. Repeatable."
    )
    group.addoption(_BASELINE, action="append", default=[], metavar="RESULTS", help="The baseline run. Repeatable.")
    group.addoption(_PACK, metavar="PACK", help="The pack of the run. Its recorded answers are the baseline.")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the test of the command line's gate."""
    gate = config.getoption(_GATE)
    if gate is None:
        return
    results = config.getoption(_RESULTS)
    if not results:
        raise pytest.UsageError(f"{_GATE} needs {_RESULTS}")
    options = {"gate": gate, "pack": config.getoption(_PACK)}
    items.append(
        _GateItem.from_parent(
            session, name=f"gate {gate}", results=results, baseline=config.getoption(_BASELINE) or None, options=options
        )
    )


@pytest.fixture
def meta_eval_gate() -> Callable[..., Report]:
    """A function that judges results, and fails the test unless the decision is SHIP.

    It takes the results of the run, those of a ``baseline`` (or ``pack``), and the options of `meta_eval.compare` or
    `meta_eval.report`, such as ``gate`` and ``margin``. It returns the report.
    """

    def judge(results: Any, baseline: Any = None, **options: Any) -> Report:
        __tracebackhide__ = True
        try:
            return _judge(results, baseline, options)
        except GateError as error:
            report = str(error)
        pytest.fail(report, pytrace=False)

    return judge


def _judge(results: Any, baseline: Any, options: dict[str, Any]) -> Report:
    from meta_eval import api
    from meta_eval.base.errors import UserError
    from meta_eval.report.shipped_views import TextView

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
