"""Alarms: problems that scores do not show, listed before them. Most of them forbid SHIP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import (
    ALARM_EMPTY,
    ALARM_LIMIT_HIT,
    ALARM_SELF_JUDGED,
    ALARM_UNEXTRACTED,
    ALARM_UNEXTRACTED_GRAVE,
    ALARM_UNGRADED,
    NAMED,
)
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.provenance import CUT_EARLY
from meta_eval.judge.alarm_kinds import Alarm, AlarmKind, AlarmOccurrence, DocsAbove, RaisedAlarm, is_unextracted
from meta_eval.judge.decide import Veto
from meta_eval.judge.evidence import list_evidence


def _make_metric_rule(metric: str, above: float, grave: float = 0.0) -> DocsAbove:
    def has(doc: DocResult, filter_name: str) -> bool:
        answer = doc.filter_results.get(filter_name)
        return answer is not None and answer.metrics.get(metric) == 1

    return DocsAbove(has, above, grave, beside=True, metric=metric)


# In order of display.
KINDS: Mapping[str, AlarmKind] = {
    "drift": AlarmKind(
        "drift",
        "Late answers differ from early ones by more than chance (1 in 100 runs): the model or its server changed.",
        first=True,
    ),
    "gate failed": AlarmKind(
        "gate failed", "More of these answers than the gate allows: that is a DON'T SHIP.", fails=True
    ),
    "gate not met": AlarmKind("gate not met", "More of these answers than the gate allows, or it cannot be known."),
    "unit failed": AlarmKind(
        "beyond its margin", "A task that is no share, in its own unit: that is a DON'T SHIP.", fails=True
    ),
    "unit worse": AlarmKind(
        "worse by more than a tenth",
        "A task that is no share is not part of the mean. A margin in its own unit decides: margin: {TASK: 2}.",
    ),
    "unit open": AlarmKind("margin not shown", "These docs do not show that a task that is no share keeps its margin."),
    "no pack": AlarmKind("no pack named", "Nothing says what a run is to be compared with: name its pack with --pack."),
    "not run": AlarmKind("not run", "There is no result of these tasks to compare."),
    "left out": AlarmKind(
        "left out",
        "Nothing is decided of these tasks. Mend their files, or decide without them: --tasks=-NAME.",
    ),
    "no samples": AlarmKind("no samples", "Without samples (lm_eval --log_samples) nothing is paired or checked."),
    "unfinished": AlarmKind("not all docs", "These figures are of a part of the task's docs."),
    "sample": AlarmKind("embedded sample", "These are the invented rows of the embedded sample, and no benchmark."),
    "prompts": AlarmKind(
        "changed prompts",
        "These prompts were not given to the model as they stand in the pack. Run without a chat template, system "
        "instruction or shots: they are in the prompts.",
        invalid=True,
        docs=DocsAbove(lambda doc, _: doc.prompt_matches is False, 0.0),
    ),
    "tools": AlarmKind(
        "tools not in the prompt",
        "The endpoint takes the tools, and its chat template leaves them out: these docs had another prompt. Serve the "
        "model with a template that renders tools, and ask in a new output folder.",
        invalid=True,
        docs=DocsAbove(lambda doc, _: doc.tools_lost, 0.0),
    ),
    "settings": AlarmKind(
        "other settings", "The answers were generated with other settings than the task's.", invalid=True
    ),
    "unlike": AlarmKind(
        "runs not alike", "More than the model differs, so that no verdict on the model follows.", invalid=True
    ),
    "graded": AlarmKind(
        "graded differently",
        "This difference is the grader's.",
        first=True,
        invalid=True,
    ),
    "grader": AlarmKind(
        "perhaps graded differently",
        "No answer proves it.",
        first=True,
    ),
    "two bos": AlarmKind(
        "BOS twice",
        "The model was given two BOS tokens, which many models answer worse. Run it again without add_bos_token.",
        first=True,
        invalid=True,
    ),
    "no bos": AlarmKind(
        "asked without BOS",
        "The pack's prompts rely on a BOS, and `meta-eval run` refuses to ask without one. Name a tokenizer that adds "
        "it with the key tokenizer, and run again.",
        first=True,
        invalid=True,
    ),
    "texts": AlarmKind(
        "docs share a text",
        "Docs of a text are lost together, and these count as independent. --cluster takes them together.",
        first=True,
    ),
    "same run": AlarmKind(
        "the same run twice",
        "A run beside itself shows nothing of a candidate. Name the run of the candidate.",
        first=True,
    ),
    "same answers": AlarmKind("same answers", "Look at what the engine loaded before you decide on this.", first=True),
    "one of several": AlarmKind(
        "one of several answers",
        "The other answers are in the samples and in no verdict.",
        first=True,
    ),
    "endpoint": AlarmKind(
        "endpoint",
        "What answers is not what the settings ask for: another prompt, other parameters or other forms.",
    ),
    "models": AlarmKind(
        "another model",
        "These answers name another model than the requested one. A dated snapshot or a path may be the same model; "
        "several names are several models.",
    ),
    "endpoints": AlarmKind(
        "several endpoints",
        "These answers came from several addresses, and nothing says that they are one deployment: judge each apart.",
    ),
    "one side": AlarmKind("in one run only", "Docs that only one run has are left out."),
    "golds": AlarmKind(
        "other right answers",
        "Docs whose right answer is another one in B are left out: the dataset was changed, or a filter of its docs.",
    ),
    "empty": AlarmKind(
        "empty answers",
        "The prompt may have been cut to fit max_model_len, the model may have ended at once for want of a BOS token, "
        "or a stop text may have come first. From a chat endpoint the text may be in reasoning_content, or its filter "
        "of content took it.",
        "empty",
        docs=DocsAbove(lambda doc, _: doc.answer_empty and not doc.is_cut_thinking, ALARM_EMPTY, beyond_chance=True),
    ),
    "likelihoods": AlarmKind(
        "likelihoods that are no numbers",
        "These docs have no answer, whatever their score is. Float16 may overflow: try bfloat16 or float32.",
        first=True,
    ),
    "chance": AlarmKind("below chance", "Guessing would score more: look at the answers before anything else."),
    "floor": AlarmKind("almost nothing right", "No model that works scores so little: look at the answers first."),
    "unextracted": AlarmKind(
        "nothing extracted",
        "Answers that nothing could be extracted from count as wrong.",
        "unextracted",
        docs=DocsAbove(
            lambda doc, filter_name: is_unextracted(doc, filter_name) is True,
            ALARM_UNEXTRACTED,
            ALARM_UNEXTRACTED_GRAVE,
            beside=True,
        ),
    ),
    "cut more": AlarmKind(
        "cut answers differ",
        "One model is cut more often than the other, beyond chance. With a higher limit of tokens (max_gen_toks) the "
        "comparison is of whole answers.",
        "limit hit",
        first=True,
    ),
    "unread": AlarmKind(
        "answers not read",
        "One model's answers are read less often: that part of the drop is not the model's. The docs that were read on "
        "both sides show the rest.",
        "unextracted",
        first=True,
    ),
    "limit": AlarmKind(
        "limit hit",
        "Answers that reached the token limit may have been cut off.",
        "limit hit",
        docs=DocsAbove(lambda doc, _: doc.limit_hit is True or doc.is_cut_thinking, ALARM_LIMIT_HIT, beside=True),
    ),
    "ungraded": AlarmKind(
        "not graded",
        "A grader failed; these answers count as wrong. lm_eval's log names them.",
        "ungraded",
        docs=_make_metric_rule("ungraded", ALARM_UNGRADED),
    ),
    "self judged": AlarmKind(
        "self-judged passes",
        "These programs could only be run in one process with their tests, where a program can make any test pass.",
        docs=_make_metric_rule("self_judged", 0.0, ALARM_SELF_JUDGED),
    ),
    "alone": AlarmKind("nothing to compare with", "Nothing is decided of these tasks."),
    "cut unknown": AlarmKind(
        "cut off: unknown",
        "Whether long answers were cut off cannot be known: their limit is not recorded, or the model's tokenizer is "
        "not on this machine.",
    ),
    "changed": AlarmKind(
        "answers changed",
        "Their form changed, and that part of the drop is lost with it: read some of these answers first.",
        first=True,
    ),
    "filters": AlarmKind(
        "filters disagree",
        "A change of the answers' format is no change of the model: read the drop by each filter.",
        first=True,
    ),
    "format": AlarmKind("other format", "The model does not keep to the format that the prompt asks for."),
}

_LIMIT_OF_ENDPOINT = (
    "One model is cut more often than the other, beyond chance. The endpoint cuts answers at a limit of its own, which "
    "max_gen_toks does not raise: remove that limit, or ask another endpoint."
)

# The rules for docs of the core.
OF_DOCS = {key: kind.docs for key, kind in KINDS.items() if kind.docs is not None}
# Kinds that make a comparison invalid.
INVALID = frozenset(key for key, kind in KINDS.items() if kind.invalid)
_NAMED = {kind.name: kind for kind in KINDS.values()}


# What --regrade does about an alarm.
_REGRADE = {
    "graded": "Add --regrade: the answers of both sides are graded again with one grader, the pack's or the installed "
    "lm-eval's, and that decides.",
    "grader": "With --regrade the answers of both sides are graded again with one grader.",
    "one of several": "With --regrade all of them are judged.",
}


def group_alarms(raised_alarms: Iterable[RaisedAlarm], *, can_regrade: bool = True) -> tuple[Alarm, ...]:
    """Merge alarms of the same kind; those that forbid SHIP come first, and each lists a task once.

    Args:
        raised_alarms: The alarms.
        can_regrade: Whether the answers of these runs can be graded again.
    """
    groups: dict[str, dict[tuple[str | None, str | None], AlarmOccurrence]] = {}
    for kind, occurrence in raised_alarms:
        groups.setdefault(kind, {}).setdefault((occurrence.task, occurrence.run), occurrence)
    alarms = []
    kinds = {**KINDS, **{name: _find_kind(name) for name in groups if name not in KINDS}}
    for key, alarm_kind in kinds.items():
        if key in groups:
            occurrences = tuple(groups[key].values())
            if key == "endpoint":
                occurrences = _merge_equal_notes(occurrences)
            of_endpoint = key == "cut more" and any(
                CUT_EARLY in (of.note or "") for of in groups.get("endpoint", {}).values()
            )
            hint = _LIMIT_OF_ENDPOINT if of_endpoint else alarm_kind.hint
            if can_regrade and key in _REGRADE:
                hint = f"{hint} {_REGRADE[key]}"
            alarms.append(Alarm(alarm_kind.name, hint, alarm_kind.flag, occurrences))
    return tuple(sorted(alarms, key=lambda alarm: not alarm.veto))


def list_doc_rules() -> list[tuple[str, DocsAbove]]:
    """The rules for docs by the key of their kind: those of the core, then those of evidence."""
    kinds = [kind for evidence in list_evidence().values() for kind in evidence.alarm_kinds]
    return [*OF_DOCS.items(), *((kind.name, kind.docs) for kind in kinds if kind.docs)]


def _find_kind(name: str) -> AlarmKind:
    """The kind of a name: of the core, else of an evidence.

    Raises:
        KeyError: There is none.
    """
    if name in _NAMED:
        return _NAMED[name]
    return {kind.name: kind for evidence in list_evidence().values() for kind in evidence.alarm_kinds}[name]


def _merge_equal_notes(occurrences: Sequence[AlarmOccurrence]) -> tuple[AlarmOccurrence, ...]:
    """Say once, without a task, what is the same of all tasks of a run."""
    by_note: dict[tuple[str | None, str | None], list[AlarmOccurrence]] = {}
    for occurrence in occurrences:
        by_note.setdefault((occurrence.run, occurrence.note), []).append(occurrence)
    return tuple(
        some[0] if len(some) == 1 else replace(some[0], task=None, note=f"in {run}: {note}" if run else note)
        for (run, note), some in by_note.items()
    )


def find_vetoes(alarms: Iterable[Alarm], tasks: Iterable[str]) -> tuple[Veto, ...]:
    """Find the vetoes of these tasks, one for each kind of alarm that forbids SHIP."""
    names = set(tasks)
    vetoes = []
    for alarm in alarms:
        occurrences = [
            alarmed for alarmed in alarm.tasks if alarmed.veto and (alarmed.task is None or alarmed.task in names)
        ]
        if occurrences:
            more = f" and {len(occurrences) - NAMED} more" if len(occurrences) > NAMED else ""
            listed = describe_alarms(occurrences[:NAMED])
            kind = _find_kind(alarm.kind)
            invalid = frozenset(alarmed.task for alarmed in occurrences if alarmed.task and kind.invalid)
            reason = f"{alarm.kind}: {listed}{more}" if listed else alarm.kind
            vetoes.append(Veto(reason, invalid=invalid, first=kind.first, fails=kind.fails))
    return tuple(vetoes)


def find_caveats(alarms: Iterable[Alarm], tasks: Iterable[str]) -> tuple[str, ...]:
    """Find the warnings that stand before all figures of these tasks and forbid nothing, one for each kind of alarm.

    What is the same of all its tasks is said with them. What differs from task to task stands beside the alarm alone.
    """
    names = set(tasks)
    caveats = []
    for alarm in alarms:
        alarmed = [
            occurrence
            for occurrence in sorted(alarm.tasks, key=lambda occurrence: occurrence.run or "")
            if not occurrence.veto and (occurrence.task is None or occurrence.task in names)
        ]
        if not alarmed or not _find_kind(alarm.kind).first:
            continue
        of_run = [describe_alarm(occurrence) for occurrence in alarmed if occurrence.task is None]
        of_tasks = [occurrence for occurrence in alarmed if occurrence.task]
        places = [f"{each.task} in {each.run}" if each.run else str(each.task) for each in of_tasks]
        said = {describe_alarm(replace(each, task=None)) for each in of_tasks}
        shared = f" ({''.join(said)})" if len(said) == 1 and said != {""} else ""
        listed = [f"{join_names(places, NAMED)}{shared}"] if places else []
        caveats.append(": ".join(filter(None, [alarm.kind, "; ".join(filter(None, [*of_run, *listed]))])))
    return tuple(caveats)


def describe_alarms(occurrences: Sequence[AlarmOccurrence]) -> str:
    """Those of one kind, with ``A``. A note that several tasks share is said once, behind the last of them."""
    groups: dict[object, list[AlarmOccurrence]] = {}
    for occurrence in occurrences:
        shares = occurrence.task and occurrence.note and occurrence.count is None
        groups.setdefault((occurrence.run, occurrence.note) if shares else occurrence, []).append(occurrence)
    words = [
        ", ".join([*(describe_alarm(replace(each, note=None)) for each in some[:-1]), describe_alarm(some[-1])])
        for some in groups.values()
    ]
    return ("; " if any(len(some) > 1 for some in groups.values()) else ", ").join(filter(None, words))


def describe_alarm(occurrence: AlarmOccurrence) -> str:
    """``meta_ifeval in B (54 of 541)``; empty for the whole run."""
    where = f" in {occurrence.run}" if occurrence.run else ""
    count = None if occurrence.count is None else f"{occurrence.count:,} of {occurrence.of:,}"
    more = ": ".join(filter(None, (count, occurrence.note)))
    return f"{occurrence.task}{where}{f' ({more})' if more else ''}" if occurrence.task else more
