"""Serves a GGUF file with llama.cpp: ``python llamacpp_server.py MODEL FIELDS PORT``.

FIELDS is JSON: fields of ``xllamacpp.CommonParams``, and of its ``cpuparams``, such as ``n_threads``. It runs as a
script, without meta-eval.
"""

from __future__ import annotations

import enum
import json
import signal
import sys
from typing import Any


def main(model: str, fields: str, port: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to save
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.port = model, int(port)
    params.model_alias = {model}
    for name, value in json.loads(fields).items():
        _set(params if hasattr(params, name) else params.cpuparams, name, value)
    server = xllamacpp.Server(params)
    print(f"serving {model} at {server.listening_address}", flush=True)  # noqa: T201 (its log)
    while True:
        signal.pause()


def _set(params: Any, name: str, value: object) -> None:
    """Set a field; for enums ``q8_0`` means ``GGML_TYPE_Q8_0``."""
    if not hasattr(params, name):
        sys.exit(f"model_args.{name}: llama.cpp has no such field (xllamacpp.CommonParams)")
    now = getattr(params, name)
    if isinstance(now, enum.Enum):
        members = {member.name.lower(): member for member in type(now)}
        ending = [member for key, member in members.items() if key.endswith(f"_{str(value).lower()}")]
        if not ending:
            sys.exit(f"model_args.{name}: {value} is none of {', '.join(members)}")
        value = ending[0]
    try:
        setattr(params, name, value)
    except (TypeError, ValueError) as error:
        sys.exit(f"model_args.{name}: {value!r} cannot be set: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
