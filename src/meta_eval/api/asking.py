"""From a configuration to a pack, requests and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from meta_eval.base.errors import ConfigError, documented
from meta_eval.base.logs import Progress, display_logs
from meta_eval.verb_options import (
    DEFAULT_CONFIG,
    AuditKeywords,
    AuditOptions,
    ExportKeywords,
    ExportOptions,
    FidelityKeywords,
    FidelityOptions,
    GradingKeywords,
    GradingOptions,
    PrepareKeywords,
    PrepareOptions,
    RunKeywords,
    RunOptions,
)  # fmt: skip

if TYPE_CHECKING:
    from meta_eval.ask.answers.grading import Graded
    from meta_eval.ask.answers.request_export import Exported
    from meta_eval.ask.pipeline import RunResult
    from meta_eval.harness.settings import RunSettings
    from meta_eval.pack.config import Config
    from meta_eval.pack.records.preparation import Prepared
    from meta_eval.plugins.tokens.audit_report import AuditReport
    from meta_eval.plugins.tokens.token_scoring import FidelityResult


@documented
def prepare(
    config: Config | Path | str | None = None,
    *,
    options: PrepareOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[PrepareKeywords],
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
        options: Overrides and templates: the attributes of `meta_eval.verb_options.PrepareOptions`.
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
def run(
    config: Config | Path | str,
    *,
    model: str | None = None,
    options: RunOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[RunKeywords],
) -> RunResult:
    """Run the model of a configuration and grade its answers. See docs/guides/engines.md.

    ::

        from meta_eval import report, run

        ran = run("eval_config.yaml")
        print(report(ran.graded.results, pack=ran.pack).summary)

    Args:
        config: The configuration or its YAML file. An existing pack with the same settings is reused.
        model: A model of the configuration. None means the first.
        options: The attributes of `meta_eval.verb_options.RunOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``tasks``, ``shard`` and ``allow_code``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """
    from meta_eval.ask.pipeline import run_pack as ask
    from meta_eval.pack.config import open_config

    settings, place = open_config(config)
    with display_logs(progress):
        return ask(
            settings, (options or RunOptions()).updated(**keywords), model=model, config_place=place, baseline=True
        )


@documented
def fidelity(
    config: Config | Path | str | None = None,
    *,
    options: FidelityOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[FidelityKeywords],
) -> FidelityResult:
    """Ask a model for the log-probability of each token of the recorded answers. See docs/guides/same_model.md.

    ::

        from meta_eval import fidelity
        from meta_eval.plugins.tokens.token_table import read_tokens

        measured = fidelity("eval_config.yaml", docs=200)
        for answer in read_tokens(measured.tables.texts):
            print(answer.task, answer.doc, answer.logprobs.mean(), (answer.ranks == 1).mean())

    Args:
        config: The configuration or its YAML file. Read only if no pack is named. An existing pack with the same
            settings is reused.
        options: The attributes of `meta_eval.verb_options.FidelityOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``pack``, ``docs`` and ``baseline``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """

    from meta_eval.plugins.tokens.token_scoring import score_recorded_answers

    chosen = (options or FidelityOptions()).updated(**keywords)
    with display_logs(progress):
        folder, settings = _describe_config(config, chosen)
        if chosen.output is not None:
            settings = settings.model_copy(update={"output_path": str(chosen.output)})
        return score_recorded_answers(folder, settings, chosen)


def _describe_config(config: Config | Path | str | None, options: FidelityOptions) -> tuple[Path, RunSettings]:
    """The pack (prepared if none is named) and its settings."""
    from meta_eval.ask.capabilities import check_scores
    from meta_eval.ask.pipeline import prepare_pack, settings_of
    from meta_eval.pack.config import open_config, override_settings
    from meta_eval.pack.manifest import read_manifest

    if options.pack is not None:
        pack = Path(options.pack)
        return pack, override_settings(read_manifest(pack).run_settings, options.overrides)
    config_of_pack, place = open_config(config or DEFAULT_CONFIG, options.overrides)
    if config_of_pack.other_models:
        raise ConfigError(
            f"names {1 + len(config_of_pack.other_models)} models, and this call runs one", where="model_name",
            hint="Name it with --set model_name=…",
        )  # fmt: skip
    if options.ask and not options.answers:
        check_scores(config_of_pack)
    folder = prepare_pack(config_of_pack, place, edited=options.edited)
    return folder, settings_of(read_manifest(folder), config_of_pack)


@documented
def export(
    pack: Path | str,
    file: Path | str = "requests.jsonl",
    *,
    options: ExportOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[ExportKeywords],
) -> Exported:
    """Write the requests of a pack to a file that any program can answer. See docs/reference/files.md.

    ::

        from meta_eval import export

        print(export("work_dir", "requests.jsonl").tasks)

    Args:
        pack: The pack.
        file: Where to write. An existing file is replaced.
        options: The attributes of `meta_eval.verb_options.ExportOptions`.
        progress: Called with the task, the number of requests written, and its number of docs.
        keywords: Single options by name, such as ``tasks`` and ``force``.

    Raises:
        UserError: The folder is not a pack or was edited, a task is unknown, or the file cannot be written.
    """
    from meta_eval.ask.answers.request_export import export_requests as run

    with display_logs(progress):
        return run(Path(pack), Path(file), (options or ExportOptions()).updated(**keywords))


@documented
def grade(
    answers: Path | str | Sequence[Path | str],
    *,
    pack: Path | str,
    options: GradingOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[GradingKeywords],
) -> Graded:
    """Grade answers from any source, and write results and samples as lm_eval does.

    ::

        from meta_eval import grade, report

        graded = grade(["answers.0.jsonl", "answers.1.jsonl"], pack="work_dir", output="eval_results")
        print(report(graded.results, pack="work_dir").summary)

    Args:
        answers: Files of answers, read together.
        pack: The pack that the answers belong to.
        options: The attributes of `meta_eval.verb_options.GradingOptions`.
        progress: Called with the task, the number of graded answers, and the total.
        keywords: Single options by name, such as ``tasks``, ``output`` and ``partial``.

    Raises:
        UserError: Answers are missing, failed, of another pack or of several models, or the results cannot be written.
    """
    from meta_eval.ask.answers.grading import grade_answers as run

    files = [Path(answer) for answer in ([answers] if isinstance(answers, Path | str) else answers)]
    chosen = (options or GradingOptions()).updated(**keywords)
    with display_logs(progress):
        return run(files, Path(pack), chosen)


@documented
def audit(
    answers: Sequence[Path | str] = (),
    config: Config | Path | str | None = None,
    *,
    options: AuditOptions | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[AuditKeywords],
) -> AuditReport:
    """Ask a trusted copy how likely an endpoint's answers are, and judge whether it is the same model.

    ::

        from meta_eval.api import audit

        print(audit(["answers.jsonl"], pack="work_dir", overrides=["backend=vllm", "model_name=my/model"]).summary)

    Args:
        answers: Files of the endpoint's answers to the requests of the pack, as `grade` reads them. Without any: the
            recorded answers of the pack.
        config: The configuration or its YAML file. Read only if no pack is named.
        options: The attributes of `meta_eval.verb_options.AuditOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``pack``, ``docs`` and ``noise``.

    Raises:
        UserError: An error that the user can fix. Earlier scores are kept; the same call resumes.
    """
    from meta_eval.pack.prompt_lengths import find_tokenizer
    from meta_eval.plugins.tokens.answer_scoring import score_endpoint_answers
    from meta_eval.plugins.tokens.audit_build import build_audit_report
    from meta_eval.plugins.tokens.fidelity_build import find_table
    from meta_eval.plugins.tokens.token_table import read_tokens

    chosen = (options or AuditOptions()).updated(**keywords)
    noise = None if chosen.noise is None else find_table(Path(chosen.noise))
    if noise is not None:
        read_tokens(noise)  # refuses it before anything is asked
    fidelity_options = FidelityOptions(
        pack=chosen.pack, overrides=chosen.overrides, tasks=chosen.tasks, edited=chosen.edited, docs=chosen.docs,
        top_k=chosen.top_k, ask=chosen.ask, probe=False, output=chosen.output, same_deployment=chosen.same_deployment,
    )  # fmt: skip
    with display_logs(progress):
        folder, settings = _describe_config(config, fidelity_options)
        if chosen.output is not None:
            settings = settings.model_copy(update={"output_path": str(chosen.output)})
        scored = score_endpoint_answers([Path(file) for file in answers], folder, settings, fidelity_options)
        return build_audit_report(
            scored.table, scored.facts, endpoint=scored.endpoint, noise=noise,
            tokenizer=find_tokenizer(settings.tokenizer_of(settings.model_name)),
        )  # fmt: skip
