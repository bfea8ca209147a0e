"""Which tasks of a pack are meant."""

from __future__ import annotations

from collections.abc import Sequence

from meta_eval.errors import ConfigError, suggestion
from meta_eval.pack.manifest import Manifest


def choose(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """The tasks that names of tasks and groups mean, in the manifest's order.

    Raises:
        ConfigError: A name that the pack does not have.
    """
    wanted: set[str] = set()
    for name in names:
        if name not in manifest.tasks and name not in manifest.groups:
            known = [*manifest.groups, *manifest.tasks]
            raise ConfigError(
                f"this pack has no task or group {name!r}{suggestion(name, known)}",
                where="--tasks",
                hint=f"It has {', '.join(known)}",
            )
        wanted |= set(manifest.groups.get(name, (name,)))
    return [name for name in manifest.tasks if not names or name in wanted]
