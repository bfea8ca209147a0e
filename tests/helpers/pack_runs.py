"""Runs with options as keywords, by default without a baseline."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from meta_eval.api.stop_rules import read_stop_rules
from meta_eval.ask import pipeline as running
from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.logs import Progress, display_logs
from meta_eval.pack.config import Config


def run_pack(config: Config, *, progress: Progress | None = None, **keywords: Any) -> running.RunResult:
    """Run a pack as `meta-eval run` does."""
    names = {field.name for field in fields(RunOptions)} & keywords.keys()
    options = RunOptions(**{name: keywords.pop(name) for name in names})
    with display_logs(progress):
        return running.run_pack(config, options, stop_rules=partial(read_stop_rules, options.gate), **keywords)
