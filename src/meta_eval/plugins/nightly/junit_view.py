"""JUnit XML, as CI servers read it: a case for each task, and one for the decision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar
from xml.etree.ElementTree import Element, SubElement, tostring

from meta_eval.sockets import Document, View

# What XML 1.0 cannot hold, not even escaped.
_UNHELD = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# By outcome the element of a case; none for a case that passed.
_ELEMENTS = {"worse": "failure", "DON'T SHIP": "failure", "undecided": "skipped", "UNDECIDED": "skipped"}


class JUnitView(View):
    """A suite with a case per task and a case ``decision``.

    Failed: worse, or DON'T SHIP. Skipped: undecided. An invalid comparison is an error of the decision.
    """

    document_types: ClassVar[frozenset[str]] = frozenset(("report", "compare"))

    def render(self, document: Document) -> bytes:
        """See `View.render`."""
        cases = list(_list_cases(document))
        found = [element for *_, element in cases]
        counts = {"failures": found.count("failure"), "errors": found.count("error"), "skipped": found.count("skipped")}
        suite = Element("testsuite", name=_clean(document.title), tests=f"{len(cases)}")
        for name, count in counts.items():
            suite.set(name, f"{count}")
        for name, message, element in cases:
            case = SubElement(suite, "testcase", name=_clean(name), classname=f"meta-eval.{document.document_type}")
            if element is not None:
                SubElement(case, element, message=_clean(message))
        root = Element("testsuites")
        root.append(suite)
        content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
        return content


def _list_cases(document: Document) -> Iterator[tuple[str, str, str | None]]:
    """Name, message and element of each case."""
    is_invalid = document.exit_code == 2
    yield "decision", document.summary, "error" if is_invalid else _ELEMENTS.get(document.outcome or "")
    margins = {task.name: f", margin {100 * task.margin:g}" for task in document.tasks}
    for table in document.tables:
        for row in table.rows if table.key == "drops" else ():
            if row.whole:  # a mean over tasks
                continue
            texts = {column.key: table.cell(row, column).text for column in table.columns}
            message = f"drop {texts.get('drop', '')} points ({texts.get('interval', '')}){margins.get(row.name, '')}"
            yield row.name, message, _ELEMENTS.get(row.outcome or "")


def _clean(text: str) -> str:
    return _UNHELD.sub("\ufffd", text)
