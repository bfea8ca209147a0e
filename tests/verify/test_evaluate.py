"""What lm-eval says while it evaluates: of its own voice errors alone are heard, and all is afterwards as it was."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from meta_eval.verify.evaluate import quiet


def test_of_libraries_errors_alone_are_told_and_of_graders_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    loggers = [logging.getLogger(name) for name in ("", "lm_eval", "datasets", "datasets.some", "meta_eval.grader")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    with quiet(lambda record: told.append(f"{record.name}: {record.getMessage()}")):
        for logger in loggers[1:]:
            logger.info("nothing")
            logger.warning("odd")
            logger.error("wrong")
        warnings.warn("old", stacklevel=1)
        sys.stdout.write("drawn")
        logging.getLogger("lm_eval").setLevel(logging.DEBUG)
    heard = ["lm_eval: wrong", "datasets: wrong", "datasets.some: wrong", "meta_eval.grader: odd"]
    assert told == [*heard, "meta_eval.grader: wrong"]
    assert [(logger.level, logger.handlers) for logger in loggers] == before
    assert capfd.readouterr() == ("", "")
