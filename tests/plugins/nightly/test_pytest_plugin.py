"""The plug-in of pytest: a gate is a test that passes with SHIP, and shows the report otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import write_run

from meta_eval import compare
from meta_eval.reports.views import TextView

RIGHT = [1.0] * 150 + [0.0] * 50
WORSE = [1.0] * 100 + [0.0] * 100


@pytest.fixture(autouse=True, scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import all before the first pytester, which forgets what is imported later: numpy cannot be imported twice."""
    sides = [write_run(tmp_path_factory.mktemp(name), RIGHT) for name in "ab"]
    TextView().render(compare(*sides).document())


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    write_run(pytester.path / "base", RIGHT)
    write_run(pytester.path / "same", RIGHT)
    write_run(pytester.path / "worse", WORSE)
    (pytester.path / "gate.yaml").write_text("margin: 2\nbaseline_kind: run\n")
    return pytester.path


def test_a_gate_of_the_command_line_is_a_test(pytester: pytest.Pytester, folder: Path) -> None:
    options = ("-p", "no:randomly", "--meta-eval-gate", "gate.yaml", "--meta-eval-baseline", "base")
    pytester.runpytest_inprocess(*options, "--meta-eval-results", "same").assert_outcomes(passed=1)
    failed = pytester.runpytest_inprocess(*options, "--meta-eval-results", "worse")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["DON'T SHIP: *", "meta_some *worse*"])


def test_a_gate_without_results_is_an_error_of_usage(pytester: pytest.Pytester) -> None:
    end = pytester.runpytest_inprocess("--meta-eval-gate", "gate.yaml")
    assert end.ret == pytest.ExitCode.USAGE_ERROR
    end.stderr.fnmatch_lines(["*needs --meta-eval-results*"])
    for option in ("--meta-eval-results", "--meta-eval-baseline", "--meta-eval-pack"):
        end = pytester.runpytest_inprocess(option, "same")
        end.stderr.fnmatch_lines([f"*{option} needs --meta-eval-gate*"])


def test_the_fixture_fails_a_test_with_the_report_or_the_one_message(pytester: pytest.Pytester, folder: Path) -> None:
    pytester.makepyfile("""
        def test_same(meta_eval_gate):
            assert meta_eval_gate("same", baseline="base", margin=2).decision.outcome == "SHIP"

        def test_worse(meta_eval_gate):
            meta_eval_gate("worse", baseline="base", margin=2)

        def test_missing(meta_eval_gate):
            meta_eval_gate("nowhere", baseline="base")
        """)
    end = pytester.runpytest_inprocess()
    end.assert_outcomes(passed=1, failed=2)
    end.stdout.fnmatch_lines(["DON'T SHIP: *", "nowhere: there is no such file or folder*"])
    assert "Traceback" not in end.stdout.str()


UNUSED = """
import sys

def test_it_costs_nothing():
    ours = {name for name in sys.modules if name.split(".")[0] in ("meta_eval", "pydantic", "typer")}
    assert ours <= {"meta_eval", "meta_eval.base", "meta_eval.base.version", "meta_eval.pytest_plugin"}, sorted(ours)
"""


def test_where_it_is_not_used_pytest_imports_a_single_module_of_meta_eval(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(UNUSED)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.parametrize(("point", "ends"), [(None, 4), ("meta_eval.plugins.gone", 4)])
def test_without_what_makes_the_test_it_is_silent_until_it_is_used(
    point: str | None, ends: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    from meta_eval import pytest_plugin

    found = EntryPoint("gate", point, "meta_eval.pytest") if point else None
    monkeypatch.setattr(pytest_plugin, "_find_plugin", lambda: found)
    pytester.makepyfile("def test_any(): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    used = pytester.runpytest_inprocess("--meta-eval-gate", "gate.yaml", "--meta-eval-results", "same")
    assert used.ret == ends
    assert "Traceback" not in used.stderr.str() + used.stdout.str()
