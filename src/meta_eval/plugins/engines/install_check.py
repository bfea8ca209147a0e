"""The check of ``meta-eval doctor`` whether an engine could start here."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator

from meta_eval.doctor.lm_eval_probe import find_lm_eval
from meta_eval.sockets import Check, CheckedPack, Finding, not_checked, passed


class InstallCheck(Check):
    """Whether the engine of the pack is installed, and whether there are as many GPUs as it asks for. It never fails,
    because another machine often runs it."""

    def check(self, pack: CheckedPack) -> Iterator[Finding]:
        engine, settings = pack.manifest.backend, pack.manifest.run_settings
        lm_eval = find_lm_eval()
        if lm_eval is not None and engine.imports:
            ask = f"import importlib.util as u; print(u.find_spec({engine.imports!r}) is not None)"
            if _read_output([lm_eval.python, "-c", ask]).strip() == "True":
                yield passed("engine", f"{engine.imports} is installed")
            else:
                pip = f"{shlex.quote(lm_eval.python)} -m pip install {engine.install}"
                yield not_checked("engine", f"no {engine.imports} on this machine; where the command runs: {pip}")
        needed = engine.gpus(settings)
        gpus = sum(line.startswith("GPU ") for line in _read_output(["nvidia-smi", "-L"]).splitlines())
        if gpus >= needed:
            yield passed("GPUs", f"{gpus} here, {needed} asked for")
        else:
            yield not_checked("GPUs", f"{gpus or 'none'} on this machine, {needed} asked for")


def _read_output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
