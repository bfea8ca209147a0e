"""The hook of pytest, which finds it by itself: a gate as a test.

On the command line, the gate is one more test::

    pytest --meta-eval-gate gate.yaml --meta-eval-results eval_results --meta-eval-pack work_dir

In a test, the fixture ``meta_eval_gate`` is a function that fails the test unless the decision is SHIP::

    def test_fp8_is_as_good(meta_eval_gate):
        meta_eval_gate("results_fp8", baseline="results_bf16", margin=1)

Every run of pytest imports this module, so that it imports nothing of meta-eval. The entry point ``gate`` of the group
``meta_eval.pytest`` names the module that makes the test; without that entry point there are no options and no fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from typing import Any

import pytest

_GATE, _RESULTS, _BASELINE, _PACK = (
    f"--meta-eval-{name}" for name in ("gate", "results", "baseline", "pack")
)  # the options, in the order of use


def _find_plugin() -> EntryPoint | None:
    """The entry point of meta-eval itself, in a fraction of the time that a look through all packages takes."""
    try:
        points = distribution("meta-eval").entry_points
    except PackageNotFoundError:
        return None
    return next(iter(points.select(group="meta_eval.pytest", name="gate")), None)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options and the fixture."""
    point = _find_plugin()
    if point is None:
        return
    group = parser.getgroup("meta-eval", "gate on evaluation results (meta-eval)")
    group.addoption(_GATE, metavar="FILE", help="A gate.yaml: adds a test that fails unless the decision is SHIP.")
    group.addoption(
        _RESULTS, action="append", default=[], metavar="RESULTS", help="The run that is judged. Repeatable."
    )
    group.addoption(_BASELINE, action="append", default=[], metavar="RESULTS", help="The baseline run. Repeatable.")
    group.addoption(_PACK, metavar="PACK", help="The pack of the run. Its recorded answers are the baseline.")
    pluginmanager.register(_Gate(point), "meta-eval-gate")


class _Gate:
    """What imports the module that makes the test, where it is used."""

    def __init__(self, point: EntryPoint) -> None:
        self._point = point

    def _load(self) -> Any:
        try:
            return self._point.load()
        except ModuleNotFoundError as error:
            raise pytest.UsageError(f"meta-eval: {self._point.value} is not there: no module {error.name}") from None

    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Add the test of the command line's gate."""
        gate = config.getoption(_GATE)
        if gate is None:
            if alone := [option for option in (_RESULTS, _BASELINE, _PACK) if config.getoption(option)]:
                raise pytest.UsageError(f"{alone[0]} needs {_GATE}: without it nothing is judged")
            return
        results = config.getoption(_RESULTS)
        if not results:
            raise pytest.UsageError(f"{_GATE} needs {_RESULTS}")
        baseline, pack = config.getoption(_BASELINE), config.getoption(_PACK)
        items.append(self._load().make_item(session, gate, results, baseline, pack))

    @pytest.fixture
    def meta_eval_gate(self) -> Callable[..., Any]:
        """A function that judges results, and fails the test unless the decision is SHIP.

        It takes the results of the run, those of a ``baseline`` (or ``pack``), and the options of `meta_eval.compare`
        or `meta_eval.report`, such as ``gate`` and ``margin``. It returns the report.
        """
        judge: Callable[..., Any] = self._load().make_judge()
        return judge
