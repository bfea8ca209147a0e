"""A view: figures for an experiment tracker, as a flat JSON object that `mlflow.log_metrics` and `wandb.log` take.

Name it in your package's pyproject.toml, and `meta-eval report --view tracker=FILE` writes it:

    [project.entry-points."meta_eval.views"]
    tracker = "tracker_view:TrackerView"
"""

import json
import re

from meta_eval.sockets import Document, View


class TrackerView(View):
    document_types = frozenset({"report", "compare"})
    mark = re.compile(r'\A\{"exit_code": ')  # in each of its files: no other file is replaced

    def render(self, document: Document) -> str:
        figures = {"exit_code": document.exit_code}
        for table in document.tables:
            for row in table.rows if table.key == "drops" else ():
                for column in table.columns:
                    value = table.cell(row, column).value
                    if isinstance(value, int | float):
                        figures[f"{row.name}/{column.key}"] = value  # shares, from 0 to 1
        return json.dumps(figures)
