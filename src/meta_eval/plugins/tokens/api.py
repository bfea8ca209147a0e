"""The functions of this plug-in: `fidelity`, `fidelity_report` and `audit`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.apart import apart
from meta_eval.base.errors import documented
from meta_eval.base.logs import Progress, display_logs
from meta_eval.plugins.tokens.options import AuditOptions, FidelityOptions
from meta_eval.sockets import ConfigError, UserError

if TYPE_CHECKING:
    from meta_eval.judge.gate import Gate
    from meta_eval.pack.config import Config
    from meta_eval.plugins.tokens.audit_report import AuditReport
    from meta_eval.plugins.tokens.fidelity_report import FidelityReport
    from meta_eval.plugins.tokens.perplexity_report import PerplexityReport
    from meta_eval.plugins.tokens.token_scoring import FidelityResult
    from meta_eval.sockets import RunSettings


@documented
@apart
def fidelity(
    config: Config | Path | str | None = None,
    *,
    options: FidelityOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> FidelityResult:
    """Ask a model for the log-probability of each token of the recorded answers. See docs/plugins/tokens/same_model.md.

    ::

        from meta_eval import fidelity
        from meta_eval.sockets import read_tokens

        measured = fidelity("eval_config.yaml", docs=200)
        for answer in read_tokens(measured.tables.texts):
            print(answer.task, answer.doc, answer.logprobs.mean(), (answer.ranks == 1).mean())

    Args:
        config: The configuration or its YAML file. Read only if no pack is named. An existing pack with the same
            settings is reused.
        options: The attributes of `meta_eval.plugins.tokens.options.FidelityOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``pack``, ``docs`` and ``baseline``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """

    from meta_eval.plugins.tokens.token_scoring import score_recorded_answers

    chosen = (options or FidelityOptions()).updated(**keywords)
    with display_logs(progress):
        folder, settings = _find_pack(config, chosen)
        if chosen.output is not None:
            settings = settings.model_copy(update={"output_path": str(chosen.output)})
        return score_recorded_answers(folder, settings, chosen)


def _find_pack(config: Config | Path | str | None, options: FidelityOptions) -> tuple[Path, RunSettings]:
    """The pack (prepared if none is named) and its settings."""
    from meta_eval.ask.client import check_scores
    from meta_eval.ask.pipeline import find_pack

    check = check_scores if options.ask and not options.answers else None
    return find_pack(options.pack, config, options.overrides, edited=options.edited, check=check)


@documented
def fidelity_report(
    table: Path | str,
    *,
    baseline: Path | str | None = None,
    noise: Path | str | None = None,
    margin: float | None = None,
    gate: Gate | Path | str | None = None,
    tokenizer: Path | str | None = None,
) -> FidelityReport:
    """Report the figures of a table that `fidelity` wrote, and compare them with a baseline's.

    ::

        from meta_eval.plugins.tokens.api import fidelity_report

        found = fidelity_report("eval_results/fidelity/fp8.parquet", baseline="eval_results/fidelity/bf16.parquet")
        print(found.summary)

    Args:
        table: A table, or a folder that holds a single table.
        baseline: The baseline's table. The outcome is same, different or undecided.
        noise: A second table of the baseline's weights, measured in another way. None means the one in the folder
            ``again`` beside the baseline.
        margin: Largest accepted distance in nats per token, in place of the noise. None means the gate's, else the
            noise decides.
        gate: Rules, or a file of rules. ``exit_code`` then follows the outcome.
        tokenizer: Model name or folder whose tokenizer decodes tokens. None means the table's.

    Raises:
        UserError: A table, the gate or the tokenizer cannot be read, or the tables cover different tokens.
    """
    from meta_eval.judge.judging_options import JudgingOptions
    from meta_eval.judge.token_table import find_choices_path, find_table, read_choices, read_tokens
    from meta_eval.pack.prompt_lengths import find_tokenizer
    from meta_eval.plugins.tokens.evidence import find_rule
    from meta_eval.plugins.tokens.fidelity_build import build_fidelity_report

    rules = find_rule(JudgingOptions(gate=gate).read_rules())
    if margin is not None:
        if not 0 < margin < 100:
            raise ConfigError(
                f"{margin:g} is not a number of nats above 0 and below 100", where="margin", hint="Such as 0.02"
            )
        rules = rules.model_copy(update={"margin": margin})
    path = find_table(Path(table))
    header = read_tokens(path).header if path.exists() else read_choices(find_choices_path(path))[0]
    tokenizer_file = find_tokenizer(str(tokenizer or header.model))
    if tokenizer_file is None and tokenizer is not None:
        raise ConfigError("no tokenizer.json of this model is on this machine", where=f"tokenizer {tokenizer}")
    baseline_table = None if baseline is None else find_table(Path(baseline))
    return build_fidelity_report(
        path, baseline=baseline_table, noise=None if noise is None else find_table(Path(noise)), margin=rules.margin,
        min_docs=rules.min_docs,
        tokenizer=tokenizer_file, exit_follows_decision=gate is not None,
    )  # fmt: skip


@documented
def perplexity_report(log: Path | str, *, baseline: Path | str | None = None) -> PerplexityReport:
    """Report an output of llama-perplexity, and compare it with a baseline's. See docs/plugins/tokens/same_model.md.

    ::

        from meta_eval.plugins.tokens.api import perplexity_report

        found = perplexity_report("q4.log", baseline="f16.log")
        print(found.summary)

    Args:
        log: What the program printed for the copy.
        baseline: What it printed for the baseline, over the same text. None compares a table of ``--kl-divergence``
            with its own base.

    Raises:
        UserError: A log cannot be read, or they are not of the same chunks.
    """
    from meta_eval.plugins.tokens.perplexity_log import read_perplexity_log
    from meta_eval.plugins.tokens.perplexity_report import make_perplexity_report

    if baseline is not None and os.path.realpath(baseline) == os.path.realpath(log):
        raise ConfigError("is the log itself, so there is nothing to compare", where=f"baseline {baseline}")
    other = None if baseline is None else read_perplexity_log(Path(baseline))
    return make_perplexity_report(read_perplexity_log(Path(log)), other)


@documented
@apart
def audit(
    answers: Sequence[Path | str] = (),
    config: Config | Path | str | None = None,
    *,
    options: AuditOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> AuditReport:
    """Ask a trusted copy how likely an endpoint's answers are, and judge whether it is the same model.

    ::

        from meta_eval import audit

        print(audit(["answers.jsonl"], pack="work_dir", overrides=["backend=vllm", "model_name=my/model"]).summary)

    Args:
        answers: Files of the endpoint's answers to the requests of the pack, as `grade` reads them. Without any: the
            recorded answers of the pack.
        config: The configuration or its YAML file. Read only if no pack is named.
        options: The attributes of `meta_eval.plugins.tokens.options.AuditOptions`.
        progress: Called with the current step, the number of answers, and the total.
        keywords: Single options by name, such as ``pack``, ``docs`` and ``noise``.

    Raises:
        UserError: An error that the user can fix. Earlier scores are kept; the same call resumes.
    """
    from meta_eval.base.pack_names import join_names
    from meta_eval.judge.token_table import find_table, read_tokens
    from meta_eval.pack.prompt_lengths import find_tokenizer
    from meta_eval.plugins.tokens.audit_build import build_audit_report, check_noise
    from meta_eval.plugins.tokens.audit_report import name_place
    from meta_eval.plugins.tokens.endpoint_answers import score_endpoint_answers

    chosen = (options or AuditOptions()).updated(**keywords)
    noise = None if chosen.noise is None else find_table(Path(chosen.noise))
    header = None if noise is None else read_tokens(noise).header
    fidelity_options = FidelityOptions(
        pack=chosen.pack, overrides=chosen.overrides, tasks=chosen.tasks, edited=chosen.edited, docs=chosen.docs,
        top_k=chosen.top_k, ask=chosen.ask, probe=False, output=chosen.output, same_deployment=chosen.same_deployment,
        baseline=noise,
    )  # fmt: skip
    with display_logs(progress):
        folder, settings = _find_pack(config, fidelity_options)
        if noise is not None and header is not None:
            check_noise(noise, header, folder)
        if chosen.output is not None:
            settings = settings.model_copy(update={"output_path": str(chosen.output)})
        scored = score_endpoint_answers([Path(file) for file in answers], folder, settings, fidelity_options)
        if noise is not None and noise.resolve() == scored.table.resolve():
            raise UserError(
                "is the table of the answers that are audited, which are always as far off as themselves",
                where=str(noise), hint="Name the table of answers of your own copy with --noise",
            )  # fmt: skip
        return build_audit_report(
            scored.table, scored.facts, endpoint=scored.endpoint, noise=noise,
            tokenizer=find_tokenizer(settings.tokenizer_of(settings.model_name)),
            answers=join_names([name_place(str(file)) for file in answers], 2) if answers else "the record",
        )  # fmt: skip
