"""The function of this plug-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.apart import apart
from meta_eval.base.errors import documented
from meta_eval.base.logs import Progress, display_logs
from meta_eval.plugins.load.options import LoadOptions, check_options

if TYPE_CHECKING:
    from meta_eval.pack.config import Config
    from meta_eval.plugins.load.load_report import LoadReport


@documented
@apart
def load(
    config: Config | Path | str | None = None,
    *,
    options: LoadOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> LoadReport:
    """Ask a server alone and under load, and say whether it loses answers. See docs/plugins/load/load.md.

    ::

        from meta_eval import load

        found = load(pack="work_dir", concurrency=(16, 64), overrides=["base_url=http://localhost:8000/v1"])
        print(found.summary)

    Args:
        config: The configuration or its YAML file. Read only if no pack is named. An existing pack with the same
            settings is reused.
        options: The attributes of `meta_eval.plugins.load.options.LoadOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``pack``, ``concurrency`` and ``docs``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """
    from meta_eval.ask.pipeline import find_pack
    from meta_eval.plugins.load.load_build import run_load
    from meta_eval.plugins.load.load_report import LoadReport

    chosen = (options or LoadOptions()).updated(**keywords)
    check_options(chosen)
    with display_logs(progress):
        pack, settings = find_pack(chosen.pack, config, chosen.overrides, edited=chosen.edited)
        return LoadReport(run_load(pack, settings, chosen))
