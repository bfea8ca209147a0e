"""From a configuration to a pack, requests and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.ask.ask_options import ExportOptions, GradingOptions, RunOptions
from meta_eval.base.apart import apart
from meta_eval.base.errors import documented
from meta_eval.base.logs import Progress, display_logs
from meta_eval.pack.pack_options import DEFAULT_CONFIG, PrepareOptions

if TYPE_CHECKING:
    from meta_eval.ask.grading import Graded
    from meta_eval.ask.pipeline import RunResult
    from meta_eval.ask.request_export import Exported
    from meta_eval.harness.settings import RunSettings
    from meta_eval.pack.config import Config
    from meta_eval.pack.records.preparation import Prepared


@documented
@apart
def prepare(
    config: Config | Path | str | None = None,
    *,
    options: PrepareOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Prepared:
    """Make a pack: docs, task YAML and manifest in the configuration's ``work_dir``.

    ::

        from meta_eval import Config, prepare

        config = Config(model_name="my/model", evals_dataset="sample", tasks=("meta_instruct",))
        pack = prepare(config)
        print(pack.manifest.command)

    Args:
        config: The configuration or its YAML file. Its evals dataset is Meta's, or a folder with samples of lm-eval.
            None means ``eval_config.yaml``.
        options: Overrides and templates: the attributes of `meta_eval.pack.pack_options.PrepareOptions`.
        progress: Called with the current step.
        keywords: Single options by name, such as ``overrides`` and ``template_dir``.

    Raises:
        UserError: An error that the user can fix. The work_dir is unchanged.
    """
    from meta_eval.pack.config import open_config

    chosen = (options or PrepareOptions()).updated(**keywords)
    with display_logs(progress):
        templates = () if chosen.template_dir is None else (f"template_dir={json.dumps(str(chosen.template_dir))}",)
        settings, place = open_config(config or DEFAULT_CONFIG, [*chosen.overrides, *templates])
        from meta_eval.pack.records.preparation import (
            prepare_config,
        )  # a slow import, not needed to report errors in the file

        return prepare_config(settings, place)


@documented
@apart
def run(
    config: Config | Path | str | None = None,
    *,
    pack: Path | str | None = None,
    model: str | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> RunResult:
    """Run the model of a configuration and grade its answers. See docs/guides/engines.md.

    ::

        from meta_eval import report, run

        ran = run("eval_config.yaml")
        print(report(ran.graded.results, pack=ran.pack).summary)

    Args:
        config: The configuration or its YAML file. An existing pack with the same settings is reused. None means
            ``eval_config.yaml``. Or a pack.
        pack: A pack to run as it is, with its own settings. The configuration is then not read.
        model: A model of the configuration. None means the first.
        options: The attributes of `meta_eval.ask.ask_options.RunOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``tasks``, ``shard`` and ``allow_code``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """
    from meta_eval.api.stop_rules import read_stop_rules
    from meta_eval.ask.pipeline import read_run_settings
    from meta_eval.ask.pipeline import run_pack as ask
    from meta_eval.pack.config import CONFIG_OBJECT, open_config
    from meta_eval.pack.manifest import MANIFEST

    settings: Config | RunSettings
    if pack is None and isinstance(config, Path | str) and (Path(config) / MANIFEST).is_file():
        pack = config
    if pack is None:
        settings, place = open_config(config or DEFAULT_CONFIG)
    else:
        settings, place = read_run_settings(Path(pack), ()), CONFIG_OBJECT
    chosen = (options or RunOptions()).updated(**keywords)
    with display_logs(progress):
        return ask(
            settings, chosen, model=model, config_place=place, baseline=True,
            stop_rules=partial(read_stop_rules, chosen.gate),
        )  # fmt: skip


@documented
@apart
def export(
    pack: Path | str,
    file: Path | str = "requests.jsonl",
    *,
    options: ExportOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Exported:
    """Write the requests of a pack to a file that any program can answer. See docs/reference/files.md.

    ::

        from meta_eval import export

        print(export("work_dir", "requests.jsonl").tasks)

    Args:
        pack: The pack.
        file: Where to write. A file of requests that an earlier export wrote is replaced.
        options: The attributes of `meta_eval.ask.ask_options.ExportOptions`.
        progress: Called with the task, the number of requests written, and its number of docs.
        keywords: Single options by name, such as ``tasks`` and ``force``.

    Raises:
        UserError: The folder is not a pack or was edited, a task is unknown, or the file cannot be written.
    """
    from meta_eval.ask.request_export import export_requests as run

    with display_logs(progress):
        return run(Path(pack), Path(file), (options or ExportOptions()).updated(**keywords))


@documented
@apart
def grade(
    answers: Path | str | Sequence[Path | str],
    *,
    pack: Path | str,
    options: GradingOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Graded:
    """Grade answers from any source, and write results and samples as lm_eval does.

    ::

        from meta_eval import grade, report

        graded = grade(["answers.0.jsonl", "answers.1.jsonl"], pack="work_dir", output="eval_results")
        print(report(graded.results, pack="work_dir").summary)

    Args:
        answers: Files of answers, read together.
        pack: The pack that the answers belong to.
        options: The attributes of `meta_eval.ask.ask_options.GradingOptions`.
        progress: Called with the task, the number of graded answers, and the total.
        keywords: Single options by name, such as ``tasks``, ``output`` and ``partial``.

    Raises:
        UserError: Answers are missing, failed, of another pack or of several models, or the results cannot be written.
    """
    from meta_eval.ask.grading import grade_answers as run

    files = [Path(answer) for answer in ([answers] if isinstance(answers, Path | str) else answers)]
    chosen = (options or GradingOptions()).updated(**keywords)
    with display_logs(progress):
        return run(files, Path(pack), chosen)
