"""Two runs that asked the same questions in other ways: in two harnesses, or with another system message.

Of another harness the same benchmark has another name, and its verdict another metric: the names of the baseline are
given to the candidate. Docs are paired by their question. That is no reason to trust the pair: the prompts differ, and
each harness has graders of its own. `describe_harnesses` and `describe_prompts` say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from meta_eval.base.inputs import parse_json
from meta_eval.harness.compared_settings import describe_changes
from meta_eval.harness.doc_results import DocResult, Sample
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.sample_parser import read_arguments
from meta_eval.judge.pair import find_verdict_metric

# The harness of files that name none.
_OWN = "lm-eval"

# What stands for the hash of a prompt that is another than the baseline's.
_OTHER_PROMPT = "another prompt"

# Shorter texts of a doc may stand in a prompt by chance.
_QUESTION_CHARS = 12

# What a system message is called among differences.
SYSTEM_MESSAGE = "system message"

# Docs with one number are the same where their golds are, for this share of all, and there are so many golds.
_SAME_GOLDS, _FEWEST_GOLDS = 0.95, 3


class Prompt(NamedTuple):
    """What a doc was asked."""

    message: str
    """The last message of the user."""

    question: str
    """The last text of the doc in this message, of `_QUESTION_CHARS` or more if there is one; else the message."""

    messages: tuple[tuple[str, str], ...]
    """Role and text of each message. A text is the only message of a user."""


def name_harness(run: Run) -> str:
    """The harness that recorded a run; that of its first task."""
    return next((task.provenance.harness or _OWN for task in run.tasks.values()), _OWN)


def align_runs(baseline: Run, candidate: Run) -> Run:
    """Give the candidate the baseline's names of what is the same: docs with one question; of a run of another harness
    also its tasks and metrics.

    A single task on each side of two harnesses is taken for the same benchmark. Of a task of both, the metric that says
    whether an answer is right is taken for the same.

    Returns:
        The candidate; of one harness unchanged but for tasks that have no doc in common.
    """
    if name_harness(baseline) == name_harness(candidate):
        unpaired = {
            name: task
            for name, task in candidate.tasks.items()
            if name in baseline.tasks and not _share_docs(baseline.tasks[name], task)
        }
        repeats = {
            name: tuple(_align_docs(baseline.tasks[name], run, golds=True) for run in candidate.repeats.get(name, ()))
            for name in unpaired
        }
        aligned = {name: _align_docs(baseline.tasks[name], task, golds=True) for name, task in unpaired.items()}
        return replace(
            candidate,
            tasks={**candidate.tasks, **aligned},
            repeats={**candidate.repeats, **{name: runs for name, runs in repeats.items() if runs}},
        )
    tasks = dict(candidate.tasks)
    if not baseline.tasks.keys() & tasks.keys() and len(baseline.tasks) == len(tasks) == 1:
        tasks = {name: replace(task, task=name) for name, task in zip(baseline.tasks, tasks.values(), strict=True)}
    renamed = len(tasks) == 1 and tasks.keys() != candidate.tasks.keys()
    repeats = dict(zip(tasks, candidate.repeats.values(), strict=False)) if renamed else dict(candidate.repeats)
    for name in baseline.tasks.keys() & tasks.keys():
        first = baseline.tasks[name]
        tasks[name] = _align_docs(first, _align_metric(first, tasks[name]))
        repeats[name] = tuple(_align_docs(first, _align_metric(first, run)) for run in repeats.get(name, ()))
    return replace(candidate, tasks=tasks, repeats={name: runs for name, runs in repeats.items() if runs})


def _align_metric(baseline: TaskRun, candidate: TaskRun) -> TaskRun:
    """The candidate, with its verdict under the baseline's name; as it is where it has that name, or no verdict."""
    wanted, own = find_verdict_metric(baseline, None), find_verdict_metric(candidate, None)
    if wanted is None or own is None or wanted == own:
        return candidate
    return replace(
        candidate,
        docs=tuple(_rename(doc, own, wanted) for doc in candidate.docs),
        filters=(wanted.partition(",")[2],),
        aggregates={},
    )


def _rename(doc: DocResult, own: str, wanted: str) -> DocResult:
    metric, _, filter_name = own.partition(",")
    new_metric, _, new_filter = wanted.partition(",")
    result = doc.filter_results.get(filter_name)
    if result is None or metric not in result.metrics:
        return replace(doc, filter_results={})
    each = {new_metric: result.verdict_of_each[metric]} if metric in result.verdict_of_each else {}
    renamed = replace(result, metrics={new_metric: result.metrics[metric]}, verdict_of_each=each)
    return replace(doc, filter_results={new_filter: renamed})


def _share_docs(baseline: TaskRun, candidate: TaskRun) -> bool:
    """Whether docs of both may be paired by their own keys, or one side has none."""
    others = {key for doc in candidate.docs[:1] for key in _own_keys(doc)}
    if not others or any(
        not others.isdisjoint(_own_keys(doc)) for doc in baseline.docs
    ):  # the usual case, found faster
        return True
    known = {key for doc in baseline.docs for key in _own_keys(doc)}
    return not known or any(not known.isdisjoint(_own_keys(doc)) for doc in candidate.docs)


def _own_keys(doc: DocResult) -> list[object]:
    return [key for key in ((doc.question_hash, doc.gold), doc.sent_hash) if key]


def _align_docs(baseline: TaskRun, candidate: TaskRun, *, golds: bool = False) -> TaskRun:
    """The candidate, whose docs have the keys of the baseline's docs with the same question. Where the whole prompt is
    the same, it is the same prompt; otherwise the prompts differ.

    Args:
        baseline, candidate: A task in both runs.
        golds: Whether the right answers must be the same, too. Two harnesses may write them differently.
    """
    prompts, own = dict(_read_prompts(baseline)), dict(_read_prompts(candidate))
    docs = list(candidate.docs)
    for place, place_of_same in _pair_questions(baseline, candidate, prompts, own).items():
        same = baseline.docs[place_of_same]
        if golds and docs[place].gold != same.gold:
            continue
        is_same = place in own and place_of_same in prompts and own[place].messages == prompts[place_of_same].messages
        docs[place] = replace(
            docs[place],
            question_hash=same.question_hash,
            gold=same.gold,
            sent_hash=same.sent_hash if is_same else _OTHER_PROMPT,
            prompt_hashes=same.prompt_hashes,
            prompt_matches=same.prompt_matches,
        )
    return replace(candidate, docs=tuple(docs))


def _pair_questions(
    baseline: TaskRun, candidate: TaskRun, prompts: Mapping[int, Prompt], own: Mapping[int, Prompt]
) -> dict[int, int]:
    """By place of a doc of the candidate the place of the baseline's: by the last message of the user, else by the
    question of the doc, else by its number and gold. A text that several docs have pairs none. Texts that pair fewer
    than half of the docs of the smaller run pair none, either."""
    matches: dict[int, int] = {}
    for part in ("message", "question"):
        a, b = ({place: getattr(prompt, part) for place, prompt in side.items()} for side in (prompts, own))
        counts = Counter(a.values()), Counter(b.values())
        places = {text: place for place, text in a.items() if counts[0][text] == 1}
        used = set(matches.values())
        matches |= {
            place: places[text]
            for place, text in b.items()
            if place not in matches and counts[1][text] == 1 and text in places and places[text] not in used
        }
    # A few texts may be the same in two sets of other questions.
    has_most = 2 * len(matches) >= min(len(baseline.docs), len(candidate.docs))
    return matches if has_most else _pair_numbers(baseline, candidate)


def _pair_numbers(baseline: TaskRun, candidate: TaskRun) -> dict[int, int]:
    """Docs with the same number and gold; none where golds do not show that the numbers mean the same docs."""
    places = {doc.doc_id: place for place, doc in enumerate(baseline.docs)}
    common = [(place, places[doc.doc_id]) for place, doc in enumerate(candidate.docs) if doc.doc_id in places]
    golds = [(baseline.docs[other].gold, candidate.docs[place].gold) for place, other in common]
    same = [pair for pair, (a, b) in zip(common, golds, strict=True) if a == b]
    shows = len(same) >= _SAME_GOLDS * len(common) and len({gold for gold, _ in golds}) >= _FEWEST_GOLDS
    return dict(same) if shows else {}


def _read_prompts(task: TaskRun) -> Iterator[tuple[int, Prompt]]:
    """By place of a doc what it was asked; nothing of docs whose prompt is unknown."""
    if task.samples_file is None and task.logged is None:
        return
    with task.open_samples() as read:
        for place, doc in enumerate(task.docs):
            result = next(iter(doc.filter_results.values()), None)
            if result and (prompt := read_prompt(read(result))):
                yield place, prompt


def read_prompt(sample: Sample) -> Prompt | None:
    """What the doc of a sample was asked; None where that is unknown."""
    requests = read_arguments(sample)
    messages = _read_messages(requests[0][0]) if requests else ()
    if not messages:
        return None
    message = next((text for role, text in reversed(messages) if role == "user"), messages[-1][1])
    return Prompt(message, _find_question(sample.get("doc"), message), messages)


def _find_question(doc: Any, message: str) -> str:
    texts = doc.values() if isinstance(doc, dict) else ()
    parts = [text.strip() for text in texts if isinstance(text, str) and text.strip() and text.strip() in message]
    long_enough = [text for text in parts if len(text) >= _QUESTION_CHARS] or parts
    return max(long_enough, key=lambda text: (message.rfind(text) + len(text), len(text)), default=message)


def _read_messages(prompt: Any) -> tuple[tuple[str, str], ...]:
    """The messages of a prompt. A text is the only message of a user."""
    prompt = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
    if not isinstance(prompt, str):
        return ()
    tree: Any = None
    if prompt.startswith("["):
        try:
            tree = parse_json(prompt)
        except ValueError:
            tree = None
    if isinstance(tree, list) and tree and all(isinstance(part, dict) for part in tree):
        return tuple((str(part.get("role")), str(part.get("content")).strip()) for part in tree)
    return (("user", prompt.strip()),)


def describe_prompts(baseline: TaskRun, candidate: TaskRun, pairs: Iterable[tuple[DocResult, ...]]) -> list[str]:
    """What differs between the messages of the first docs with other prompts: the system message and the number of
    messages. Of docs that only their question pairs else the last message.

    Args:
        baseline, candidate: A task in both runs.
        pairs: Its paired docs.
    """
    differing = next(((a, b) for a, b in pairs if not a.shares_prompt_with(b)), None)
    if differing is None:
        return []
    a, b = (
        [prompt for _, prompt in _read_prompts(replace(task, docs=(doc,)))]
        for task, doc in zip((baseline, candidate), differing, strict=True)
    )
    if not a or not b:
        return []
    changes = describe_changes(_count_messages(a[0]), _count_messages(b[0]))
    if changes or differing[1].sent_hash != _OTHER_PROMPT:
        return changes
    return describe_changes({"last message": a[0].messages[-1][1]}, {"last message": b[0].messages[-1][1]})


def _count_messages(prompt: Prompt) -> dict[str, object]:
    return {
        SYSTEM_MESSAGE: "\n".join(text for role, text in prompt.messages if role == "system") or None,
        "other messages": sum(role != "system" for role, _ in prompt.messages),
    }


def describe_harnesses(baseline: Provenance, candidate: Provenance, sides: tuple[str, str] = ("A", "B")) -> str | None:
    """What differs between the harnesses of two tasks, a clause; None if nothing does."""
    a, b = baseline.harness or _OWN, candidate.harness or _OWN
    if a == b:
        return None
    graders = [", ".join(sorted(side.grader.metrics)) for side in (baseline, candidate)]
    named = [f" ({grader:.60})" if grader else "" for grader in graders]
    return f"graded by {a}{named[0]} in {sides[0]}, by {b}{named[1]} in {sides[1]}"
