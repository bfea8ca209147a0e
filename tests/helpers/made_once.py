"""What hundreds of packs of the tests have in common is made once a process: templates, and the YAML of tasks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from places import TEMPLATES
from plugged import is_there


@contextmanager
def templates_once() -> Iterator[None]:
    """Read the shipped templates once, which no test changes, and write a task's YAML anew once for the same docs.

    These are half of what prepare costs with few docs.
    """
    from meta_eval.pack.templates import task_yaml

    write_anew, known = task_yaml.bundle_task, dict[str, str]()

    def bundle_task(text: str, **keys: Any) -> str:
        key = f"{text}{keys}"
        if key not in known:
            known[key] = write_anew(text, **keys)
        return known[key]

    with patch.object(task_yaml, "bundle_task", bundle_task):
        if not is_there("meta"):
            yield
            return
        from meta_eval.plugins.meta import templates

        read = templates.read_templates
        read_once = functools.cache(read)
        with patch.object(
            templates, "read_templates", lambda root: read_once(root) if root == TEMPLATES else read(root)
        ):
            yield
