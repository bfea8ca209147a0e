"""JUnit XML, as CI servers read it: a case for each task, and one for the decision."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar
from xml.etree.ElementTree import Element, SubElement, tostring

from meta_eval.sockets import CandidatesReport, Document, View, text

# What XML 1.0 cannot hold, not even escaped.
_UNHELD = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# The name, the message and the element of a case.
_Case = tuple[str, str, str | None]

# By outcome the element of a case; none for a case that passed.
_ELEMENTS = {"worse": "failure", "DON'T SHIP": "failure", "undecided": "skipped", "UNDECIDED": "skipped"}


class JUnitView(View):
    """A suite with a case per task and a case ``decision``.

    Failed: worse, or DON'T SHIP. Skipped: undecided. An invalid comparison is an error of the decision. Of several
    candidates each has a suite; that of one that could not be compared has its error alone.
    """

    document_types: ClassVar[frozenset[str]] = frozenset(("report", "compare", "candidates"))

    def render(self, document: Document) -> bytes:
        """See `View.render`."""
        root = Element("testsuites")
        if isinstance(document.source, CandidatesReport):
            for candidate in document.source.candidates:
                cases = _list_cases(candidate.report.document()) if candidate.report else ()
                error = () if candidate.report else (("decision", str(candidate.error), "error"),)
                title = f"{candidate.name} beside {document.source.baseline}"
                _add_suite(root, title, f"meta-eval.compare.{candidate.name}", (*cases, *error))
        else:
            _add_suite(root, document.title, f"meta-eval.{document.document_type}", tuple(_list_cases(document)))
        content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
        return content


def _add_suite(root: Element, title: str, class_name: str, cases: Sequence[_Case]) -> None:
    found = [element for *_, element in cases]
    counts = {"failures": found.count("failure"), "errors": found.count("error"), "skipped": found.count("skipped")}
    suite = SubElement(root, "testsuite", name=_clean(title), tests=f"{len(cases)}")
    for name, count in counts.items():
        suite.set(name, f"{count}")
    for name, message, element in cases:
        case = SubElement(suite, "testcase", name=_clean(name), classname=_clean(class_name))
        if element is not None:
            SubElement(case, element, message=_clean(message))


def _list_cases(document: Document) -> Iterator[_Case]:
    is_invalid = document.exit_code == 2
    yield "decision", document.summary, "error" if is_invalid else _ELEMENTS.get(document.outcome or "")
    for task in document.tasks:
        if task.is_left_out:
            continue
        parts = []
        if task.is_decided:
            interval = text.format_drop_interval(task.interval)
            parts = [f"drop {text.format_drop(task.drop.value)} points ({interval}), margin {100 * task.margin:g}"]
        parts += filter(None, [text.explain_outcome(task)])
        yield task.name, "; ".join(parts), _ELEMENTS.get(task.outcome)


def _clean(words: str) -> str:
    return _UNHELD.sub("\ufffd", words)
