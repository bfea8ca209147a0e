"""Two runs over the same docs, such as a model and its quantised twin: A is what B's drop is a drop from.

A doc of one run is the doc of the other that has the same question and gold by Meta's hashes, or lm-eval's of the whole
doc, whatever its number is; of several the one with the same prompt. What only one run has is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meta_eval.judging.alarms import INVALID, Raised, alarms
from meta_eval.judging.gate import Gate, Rule
from meta_eval.judging.judge import RUN_A, Draft, conclude, draft
from meta_eval.judging.model import Alarmed, Judgement
from meta_eval.judging.sides import Side, lay_out, shared_questions, verdict_spec
from meta_eval.pack.manifest import Manifest
from meta_eval.results.baseline import Baseline
from meta_eval.results.model import Doc, ResultsError
from meta_eval.results.provenance import Provenance
from meta_eval.results.run import Run, TaskRun


def compare(
    before: Run,
    after: Run,
    manifest: Manifest | None = None,
    baseline: Baseline | None = None,
    rules: Gate | None = None,
) -> Judgement:
    """Compare two runs, task by task.

    Args:
        before: The baseline, A.
        after: What is compared with it, B.
        manifest: The pack of both, which names each task's published metric; else the runs say it.
        baseline: Meta's recorded answers, for rules that ask for them.
        rules: What is asked.

    Raises:
        ResultsError: The runs have no task in common, or a task has no doc or no metric in common.
        ConfigError: The rules name a task that is not there.
    """
    first, second = ({task for task, one in run.tasks.items() if one.docs} for run in (before, after))
    if not first & second:
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(first)) or 'none'}, and "
            f"{', '.join(sorted(second)) or 'none'}",
            hint="Both need samples of the same task: run lm_eval with --log_samples",
        )
    gate = (rules or Gate()).or_margin(manifest.run.margin if manifest else None)
    entries = manifest.tasks if manifest else {}
    common = sorted(first & second)
    bare = [name for name in common if verdict_spec(before.tasks[name], entries.get(name)) is None]
    chosen = [name for name in common if name not in bare] or common
    lacking = sorted((first ^ second) | (set(entries) - first - second))
    # What the pack does not have, or B has besides, nobody asked for.
    wanted = gate.among(sorted({*chosen, *(first - second), *entries}))
    shared = shared_questions([before.tasks[name].docs for name in chosen])
    drafts = [
        _task(name, before.all_runs(name), after.all_runs(name), manifest, baseline, gate.rule(name), shared)
        for name in chosen
    ]
    raised: list[Raised] = []
    for name in lacking:
        where = "only A has samples of it" if name in first else "only B has samples of it" if name in second else None
        raised.append(("not run", Alarmed(name, note=where, veto=name in wanted)))
    notes = [f"{name}: left out, since it has no metric that is a share" for name in bare if name not in chosen]
    return conclude(drafts, gate, wanted, raised, notes)


def _task(
    name: str,
    before: Sequence[TaskRun],
    after: Sequence[TaskRun],
    manifest: Manifest | None,
    baseline: Baseline | None,
    rule: Rule,
    shared: frozenset[str],
) -> Draft:
    entry = manifest.tasks.get(name) if manifest else None
    sides = lay_out(name, after, entry, baseline, before)
    found = draft(sides, rule, shared)
    pairs = found.task.source.docs if found.task.source else ()
    where = f"{before[0].samples_file} and {after[0].samples_file}"
    if not pairs:
        raise ResultsError(f"{name}: the runs have no doc in common", where=where, hint="Run both with one pack")
    if found.evidence is None and rule.against in (None, "baseline"):
        raise ResultsError(f"{name}: the runs have no metric in common that is a share", where=where)
    raised: list[Raised] = [(kind, replace(one, run="B")) for kind, one in found.raised]
    spec, a = verdict_spec(before[0], entry) or "", sides.first
    for number, one in enumerate(before if spec else ()):
        assert a is not None  # noqa: S101 (it is the side of ``before``)
        of_a = alarms(name, one, a, number, spec, baseline=Side([after[0].docs]), reference=None)
        raised += [(kind, replace(alarmed, run="A")) for kind, alarmed in of_a]
    unlike = _unlike(before[0].provenance, after[0].provenance, pairs)
    if found.task.against in (None, RUN_A):
        # What both do otherwise than the pack asks is no difference between them; what only one does is one.
        raised = [(kind, replace(one, veto=one.veto and kind not in INVALID)) for kind, one in raised]
        raised += [("unlike", Alarmed(name, note=unlike))] if unlike else []
    elif unlike:
        raised.append(("unlike", Alarmed(name, note=unlike, veto=False)))
    counts = [len(before[0].docs) - len(pairs), len(after[0].docs) - len(pairs)]
    left_out = [
        f"{count:,} {'doc' if count == 1 else 'docs'} only in {run}"
        for run, count in zip("AB", counts, strict=True)
        if count
    ]
    if left_out:
        raised.append(("one side", Alarmed(name, note=" and ".join(left_out), veto=rule.min_docs is None)))
    known = found.task.prepared
    if entry is None and rule.min_docs is None and (known is None or len(pairs) < known) and not left_out:
        note = f"{len(pairs)} of {known or 'an unknown number of'} docs were run"
        raised.append(("unfinished", Alarmed(name, note=note)))
    return replace(found, task=replace(found.task, docs=len(pairs)), raised=tuple(raised))


def _unlike(before: Provenance, after: Provenance, pairs: Sequence[tuple[Doc, ...]]) -> str | None:
    """What differs besides the model, so that the comparison is invalid; None for nothing."""
    prompts = sum(not a.same_prompt(b) for a, b in pairs)
    said = [f"{prompts:,} of {len(pairs):,} docs had another prompt in B"] if prompts else []
    if None not in (before.shots, after.shots) and before.shots != after.shots:
        said.append(f"{before.shots} shots in A, {after.shots} in B")
    names = sorted({*before.decoding, *after.decoding})
    settings: list[tuple[str, object, object]] = [
        ("a chat template", before.chat_template, after.chat_template),
        ("a system instruction", before.system_instruction, after.system_instruction),
        *((name, before.decoding.get(name), after.decoding.get(name)) for name in names),
    ]
    return "; ".join([*said, *(f"{what}: {_of(a)} in A, {_of(b)} in B" for what, a, b in settings if a != b)]) or None


def _of(setting: object) -> str:
    """A setting in a few words: ``none``, ``yes``, ``0.7``."""
    if setting is None or isinstance(setting, bool):
        return "yes" if setting else "none"
    return f"{setting:g}" if isinstance(setting, float) else f"{setting!s:.60}"
