"""JUnit XML, as CI servers read it: a case for each task, and one for the decision. It fails where the command does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar
from xml.etree.ElementTree import Element, SubElement, tostring

from meta_eval.base.secrets import redact_secrets
from meta_eval.reports import text
from meta_eval.reports.candidates import CandidatesReport
from meta_eval.reports.report import Report
from meta_eval.sockets import Document, View

# What XML 1.0 cannot hold, not even escaped.
_UNHELD = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# The name and the message of a case, its element (none for a case that passed), and the type of a failure.
_Case = tuple[str, str, str | None, str]

# The exit code of a gate that is undecided.
_UNDECIDED = 3


class JUnitView(View):
    """A suite with a case per task and a case ``decision``.

    The decision fails with DON'T SHIP, and with a gate with UNDECIDED, too, as the exit code does; without a gate
    UNDECIDED is skipped. An invalid comparison is an error. A task fails where its drop is proven larger than its
    margin, and is skipped where it is not shown to be within it. Of several candidates each has a suite; that of one
    that could not be compared has its error alone.
    """

    document_types: ClassVar[frozenset[str]] = frozenset(("report", "compare", "candidates"))
    mark = re.compile(r'\A<\?xml [^>]*>\s*<testsuites><testsuite [^>]*><testcase name="[^"]*" classname="meta-eval\.')

    def render(self, document: Document) -> bytes:
        """See `View.render`."""
        root = Element("testsuites")
        if isinstance(document.source, CandidatesReport):
            for candidate in document.source.candidates:
                cases = _list_cases(candidate.report.document()) if candidate.report else ()
                error = () if candidate.report else (("decision", str(candidate.error), "error", ""),)
                title = f"{candidate.name} beside {document.source.baseline}"
                _add_suite(root, title, f"meta-eval.compare.{candidate.name}", (*cases, *error))
        else:
            _add_suite(root, document.title, f"meta-eval.{document.document_type}", tuple(_list_cases(document)))
        content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
        return content


def _add_suite(root: Element, title: str, class_name: str, cases: Sequence[_Case]) -> None:
    found = [element for _, _, element, _ in cases]
    counts = {"failures": found.count("failure"), "errors": found.count("error"), "skipped": found.count("skipped")}
    suite = SubElement(root, "testsuite", name=_clean(title), tests=f"{len(cases)}")
    for name, count in counts.items():
        suite.set(name, f"{count}")
    for name, message, element, failure_type in cases:
        case = SubElement(suite, "testcase", name=_clean(name), classname=_clean(class_name))
        if element is not None:
            shown = SubElement(case, element, message=_clean(message))
            if failure_type:
                shown.set("type", failure_type)


def _list_cases(document: Document) -> Iterator[_Case]:
    yield "decision", " ".join(document.summary.splitlines()), *_find_element(document)
    for task in document.tasks:
        if task.is_left_out:
            continue
        parts = []
        if task.is_decided:
            interval = text.format_drop_interval(task.interval)
            parts = [f"drop {text.format_drop(task.drop.value)} points ({interval}), margin {100 * task.margin:g}"]
        parts += filter(None, [text.explain_outcome(task)])
        element = "failure" if task.is_beyond_margin else None if task.outcome == "within margin" else "skipped"
        yield task.name, "; ".join(parts), element, task.outcome if element == "failure" else ""


def _find_element(document: Document) -> tuple[str | None, str]:
    """The element of the decision, and the type of its failure."""
    source = document.source
    if isinstance(source, Report) and source.decision.invalid:
        return "error", ""
    if document.outcome == "UNDECIDED" and document.exit_code != _UNDECIDED:
        return "skipped", ""
    return (None, "") if document.outcome == "SHIP" else ("failure", document.outcome or "")


def _clean(words: str) -> str:
    return _UNHELD.sub("\ufffd", redact_secrets(words))
