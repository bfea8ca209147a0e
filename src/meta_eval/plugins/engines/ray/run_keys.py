"""The keys of the configuration that only backend ``ray`` has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from meta_eval.harness.config_keys import make_visible, refuse_secret
from meta_eval.sockets import ConfigKeys


def _check(address: str | None) -> str | None:
    refuse_secret(address)
    return address and make_visible(address)


class RayKeys(ConfigKeys):
    """Where its cluster is."""

    allowed: ClassVar[Mapping[str, str]] = {
        "ray_address": "null for a local cluster, `auto`, or an address such as ray://head:10001"
    }

    ray_address: Annotated[str | None, Field(min_length=1, max_length=4096), AfterValidator(_check)] = Field(
        None,
        description="with backend `ray`: the cluster, such as `ray://head:10001` or `auto`; null starts a local one",
    )
