"""A view: JUnit XML for CI servers, with a test case per task.

Name it in your package's pyproject.toml, and `meta-eval report --view junit=FILE` writes it:

    [project.entry-points."meta_eval.views"]
    junit = "junit_view:JUnitView"
"""

from xml.etree.ElementTree import Element, SubElement, tostring

from meta_eval.sockets import Document, View


class JUnitView(View):
    document_types = frozenset({"report", "compare"})

    def render(self, document: Document) -> bytes:
        suite = Element("testsuite", name=document.title)
        for table in document.tables:
            for row in table.rows if table.key == "drops" else ():
                if row.whole:  # a mean over tasks
                    continue
                cells = {column.key: table.cell(row, column).text for column in table.columns}
                case = SubElement(suite, "testcase", name=row.name, classname=document.document_type)
                if row.outcome == "worse":
                    SubElement(case, "failure", message=f"{cells['drop']} points ({cells['interval']})")
                elif row.outcome == "undecided":
                    SubElement(case, "skipped", message=document.summary)
        return tostring(suite, encoding="utf-8", xml_declaration=True)
