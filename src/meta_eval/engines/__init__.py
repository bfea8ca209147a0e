"""The engines that lm_eval can run a pack with: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.engines.base import Engine
from meta_eval.engines.server import Server
from meta_eval.engines.vllm import VLLM

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (VLLM(), Server())}
