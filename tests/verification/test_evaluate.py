"""What lm-eval says while it evaluates: of its own voice errors alone are heard, and all is afterwards as it was."""

from __future__ import annotations

import logging
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from meta_eval.base.isolation import call_outside
from meta_eval.harness.evaluator import silence_libraries


def test_of_libraries_errors_alone_are_told_and_of_graders_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    loggers = [logging.getLogger(name) for name in ("", "lm_eval", "datasets", "datasets.some", "meta_eval.grader")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    with silence_libraries(lambda record: told.append(f"{record.name}: {record.getMessage()}")):
        for logger in loggers[1:]:
            logger.info("nothing")
            logger.warning("odd")
            logger.error("wrong")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with silence_libraries():
                warnings.warn("old", stacklevel=1)
        sys.stdout.write("drawn")
        logging.getLogger("lm_eval").setLevel(logging.DEBUG)
    heard = ["lm_eval: wrong", "datasets: wrong", "datasets.some: wrong", "meta_eval.grader: odd"]
    assert told == [*heard, "meta_eval.grader: wrong"]
    assert [(logger.level, logger.handlers) for logger in loggers] == before
    assert capfd.readouterr() == ("", "")


def test_other_threads_are_heard_as_ever(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    def speak() -> None:
        sys.stdout.write("drawn\n")
        logging.getLogger("datasets").warning("odd")
        with pytest.warns(UserWarning, match="old"):
            warnings.warn("old", stacklevel=1)

    told: list[logging.LogRecord] = []
    with ThreadPoolExecutor(1) as threads, silence_libraries(told.append):
        threads.submit(speak).result()
        call_outside(speak)
    assert capsys.readouterr() == ("drawn\ndrawn\n", "")
    assert [record.getMessage() for record in caplog.records] == ["odd", "odd"]
    assert told == []


def test_without_a_handler_other_threads_are_heard_as_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with silence_libraries():
        logging.getLogger("mine").warning("lost")
        call_outside(logging.getLogger("mine").warning, "odd")
    assert capsys.readouterr() == ("", "odd\n")
