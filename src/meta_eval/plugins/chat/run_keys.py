"""The keys of the configuration that only backend ``chat`` has."""

from __future__ import annotations

from pydantic import Field

from meta_eval.sockets import ConfigKeys


class ChatKeys(ConfigKeys):
    """How answers come."""

    stream: bool = Field(False, description="with backend `chat`: ask for streamed answers")
