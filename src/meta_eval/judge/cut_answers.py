"""Cut answers: how a drop counts them, how much more often one model is cut, and what is left of a drop without them.

An answer is cut where it reached its limit of tokens, where a content filter ended it, or where it is empty. The user
says before the run what becomes of it (``cut_answers``): ``graded``, as the grader finds it; ``wrong``; or
``unscored``: a doc whose answer is cut in either model is no part of the drop. Then a model could hide a loss by
not finishing, so that more cut answers than the baseline's, beyond chance, forbid SHIP. Answers that were cut while the
model was still thinking are counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter

from meta_eval import stats
from meta_eval.base.thresholds import ALARM_LIMIT_HIT, ALPHA, CutAnswers
from meta_eval.harness.doc_results import COUNTED, DocResult, FilterResult, replace_verdict
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.decision import CutSummary
from meta_eval.judge.doc_pairs import Clusters, RunPair, measure_drop


def treat_cut_answers(pair: RunPair, how: CutAnswers) -> RunPair:
    """A baseline and a candidate as a drop takes them; without a doc where every doc was cut in one of them."""
    if how == "wrong":
        return RunPair(count_as_wrong(pair.baseline), count_as_wrong(pair.candidate))
    return leave_out_cut(pair) if how == "unscored" else pair


def explain_unknown_endings(pair: RunPair, how: CutAnswers) -> str | None:
    """Why cut answers cannot be treated so: it is unknown of some answers whether they were cut. None if it is known.

    Without it only the cut answers of one side would count.
    """
    for scored, name in zip(pair, ("the baseline", "the run"), strict=True):
        if None in _uncut_shares(scored):
            return (
                f"cut_answers: {how} needs to know which answers were cut, and of {name} that is unknown: name its "
                "tokenizer, or choose cut_answers: graded"
            )
    return None


def count_as_wrong(scored: ScoredRun) -> ScoredRun:
    """The same answers, those that were cut with the worst verdict."""
    return _rewrite(scored, lambda doc, result: _as_wrong(doc, result, scored.lower_is_better))


def leave_out_cut(pair: RunPair) -> RunPair:
    """The docs that have an answer which was not cut, in every run of both; of several answers those."""
    places = [
        place for place in range(len(pair.candidate.docs))
        if all(False in map(bool, docs[place].cuts) for scored in pair for docs in scored.runs)
    ]  # fmt: skip
    return RunPair(*(_rewrite(scored.select_docs(places), _without_cut) for scored in pair))


def compare_cut_rates(pair: RunPair, clusters: Clusters) -> stats.Drop | None:
    """How much more often the candidate's answers are cut, doc by doc: a drop of the answers that are not.

    None where none is, or where it is not known of every answer.
    """
    uncut_shares = [_uncut_shares(scored) for scored in pair]
    if None in [share for shares in uncut_shares for share in shares] or all(
        share == 1 for part in uncut_shares for share in part
    ):
        return None
    baseline, candidate = ([share or 0.0 for share in shares] for shares in uncut_shares)
    return stats.paired_drop(baseline, candidate, clusters=clusters(pair.candidate.docs))


def describe_cut(
    candidate: ScoredRun, pair: RunPair | None, metric_key: str, rate: stats.Drop | None, clusters: Clusters
) -> CutSummary | None:
    """The scores and drops with cut answers as wrong and without them; None where none was cut.

    Args:
        candidate: The run in question.
        pair: The baseline and the candidate over the same docs; None where there is no baseline.
        metric_key: The ``metric,filter`` of the scores.
        rate: What `compare_cut_rates` gave.
        clusters: What docs share with others.
    """
    scores, as_wrong = candidate.scores(metric_key), count_as_wrong(candidate).scores(metric_key)
    docs, baseline_docs = (_count(side, _is_cut) if side else 0 for side in (candidate, pair and pair.baseline))
    if scores is None or as_wrong is None or not docs + baseline_docs:
        return None
    reference = pair if pair and None not in _uncut_shares(pair.baseline) else None
    uncut = leave_out_cut(reference) if reference else None
    uncut_candidate = uncut.candidate if uncut else leave_out_cut(RunPair(candidate, candidate)).candidate
    without = uncut_candidate.scores(metric_key) if uncut_candidate.docs else None
    baseline = uncut.baseline.scores(metric_key) if uncut and uncut.docs else None
    return CutSummary(
        metric=metric_key, docs=docs, of=len(scores.contributions), score=scores.value,
        without=without.value if without else None, baseline=baseline.value if baseline else None,
        as_wrong=as_wrong.value, baseline_docs=baseline_docs if reference else None,
        more=_estimate(rate),
        drop=_estimate(measure_drop(pair, metric_key, clusters) if pair else None),
        drop_as_wrong=_estimate(
            measure_drop(treat_cut_answers(reference, "wrong"), metric_key, clusters) if reference else None
        ),
        drop_without=_estimate(measure_drop(uncut, metric_key, clusters) if uncut and uncut.docs else None),
        docs_without=len(uncut_candidate.docs),
        empty=_count(candidate, _is_empty),
        baseline_empty=_count(reference.baseline, _is_empty) if reference else 0,
        thinking=_count(candidate, _is_cut_thinking),
        baseline_thinking=_count(reference.baseline, _is_cut_thinking) if reference else None,
    )  # fmt: skip


def raise_cut_more(rates: dict[str, tuple[stats.Drop, CutSummary, CutAnswers]]) -> Iterator[RaisedAlarm]:
    """Name the tasks in which one model is cut more often than the other, beyond chance.

    Args:
        rates: By task how much more often, what else is known, and what the drop does with cut answers.
    """
    corrected = stats.correct_by_holm([rate.p_value() for rate, _, _ in rates.values()])
    for (task, (rate, cut, how)), p in zip(rates.items(), corrected, strict=True):
        # Answers without a word say so themselves: no limit cut them.
        if p < ALPHA and (how == "unscored" or not cut.differ_by_empty):
            hidden = rate.value > (0 if how == "unscored" else ALARM_LIMIT_HIT)
            yield "cut more", AlarmOccurrence(task, note=_explain(cut), veto=hidden)


def describe_thinking(docs: int | None) -> str:
    """`` (25 while thinking)``: how many docs were cut before the end of their reasoning; empty where none was."""
    return f" ({docs:,} while thinking)" if docs else ""


def explains_drop(cut: CutSummary) -> bool:
    """Whether a drop is one of cut answers alone: it is there, and not among the docs that were cut in neither."""
    if cut.drop is None or cut.drop_without is None or cut.more is None:
        return False
    has_drop = cut.drop.interval.lower > 0 and cut.more.interval.lower > 0
    return has_drop and 0 in cut.drop_without.interval and cut.drop_without.interval.upper < cut.drop.value


def _explain(cut: CutSummary) -> str:
    more, without = cut.more, cut.drop_without
    clauses = [
        f"{cut.docs:,} of {cut.of:,} answers{describe_thinking(cut.thinking)}, "
        f"{cut.baseline_docs or 0:,} of the baseline's{describe_thinking(cut.baseline_thinking)}"
    ]
    if more:
        clauses.append(f"{_signed(more.value)} points ({_bounds(more)})")
    if without and cut.drop:
        left = f"{_signed(without.value, '')} ({_bounds(without)})"
        clauses.append(
            f"the drop is {_signed(cut.drop.value, '')}, and {left} on the {cut.docs_without:,} cut in neither"
        )
    if explains_drop(cut):
        clauses.append("the whole shortfall is truncation")
    return "; ".join(clauses)


def _signed(share: float, plus: str = "+") -> str:
    digits = f"{abs(100 * share):.1f}"
    return digits if float(digits) == 0 else f"{plus if share > 0 else chr(0x2212)}{digits}"


def _bounds(estimate: stats.DropPart) -> str:
    return f"{_signed(estimate.interval.lower, '')} to {_signed(estimate.interval.upper, '')}"


def _estimate(drop: stats.Drop | None) -> stats.DropPart | None:
    return None if drop is None else drop.part


def _count(scored: ScoredRun, has: Callable[[DocResult], bool]) -> int:
    """The docs of which an answer is so in any run."""
    return sum(map(any, zip(*(map(has, docs) for docs in scored.runs), strict=True)))


def _is_cut(doc: DocResult) -> bool:
    return True in doc.cuts


_is_cut_thinking = attrgetter("is_cut_thinking")


def _is_empty(doc: DocResult) -> bool:
    """Whether an answer is empty and was not cut before the end of its reasoning."""
    return doc.answer_empty and not doc.is_cut_thinking


def _uncut_shares(scored: ScoredRun) -> list[float | None]:
    """Of each doc the share of its answers that were not cut, over all runs; None where that is not known."""
    return [
        None if None in shares else 1 - math.fsum(shares) / len(shares)
        for shares in zip(*([doc.cut_share for doc in docs] for docs in scored.runs), strict=True)
    ]


def _rewrite(scored: ScoredRun, change: Callable[[DocResult, FilterResult], FilterResult]) -> ScoredRun:
    """The same with other verdicts on the docs of which an answer was cut."""
    runs = [
        [
            replace(doc, filter_results={name: change(doc, result) for name, result in doc.filter_results.items()})
            if True in doc.cuts else doc
            for doc in docs
        ]
        for docs in scored.runs
    ]  # fmt: skip
    return ScoredRun(runs, scored.lower_is_better)


def _as_wrong(doc: DocResult, result: FilterResult, lower: frozenset[str]) -> FilterResult:
    metrics, graded = dict(result.metrics), dict(result.verdict_of_each)
    for metric, value in metrics.items():
        worst, answer_verdicts = float(metric in lower), result.verdict_of_each.get(metric, ())
        if metric in COUNTED or (len(doc.cuts) > 1 and len(answer_verdicts) != len(doc.cuts)):
            continue  # no score, or one of all answers together
        verdicts = [
            worst if cut else verdict for cut, verdict in zip(doc.cuts, answer_verdicts or (worst,), strict=True)
        ]
        metrics[metric] = replace_verdict(value, math.fsum(verdicts) / len(verdicts))
        graded |= {metric: tuple(verdicts)} if answer_verdicts else {}
    return replace(result, metrics=metrics, verdict_of_each=graded)


def _without_cut(doc: DocResult, result: FilterResult) -> FilterResult:
    metrics, graded = dict(result.metrics), {}
    for metric, answer_verdicts in result.verdict_of_each.items():
        graded[metric] = left = tuple(
            verdict for cut, verdict in zip(doc.cuts, answer_verdicts, strict=True) if not cut
        )
        metrics[metric] = replace_verdict(metrics[metric], math.fsum(left) / len(left))
    return replace(result, metrics=metrics, verdict_of_each=graded, majority=None)
