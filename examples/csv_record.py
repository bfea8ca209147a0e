"""A record format: a folder of CSV files, a file per task.

The columns are prompt, answer, gold and right (0 or 1), and optionally subtask.

Name it in your package's pyproject.toml. Then `evals_dataset` and `baseline` can read such folders:

    [project.entry-points."meta_eval.record_formats"]
    csv = "csv_record:CsvFormat"
"""

import csv

from meta_eval.sockets import LIKELY, Place, Record, RecordedDoc, RecordFormat, TextRecord, record_answer


class CsvFormat(RecordFormat):
    name = "csv"

    def detect(self, place: Place) -> float:
        return LIKELY if any(file.endswith(".csv") for file in place.files) else 0

    def open_run(self, place: Place, run: str | None, names: list[str]) -> Record:
        files = [file for file in place.files if file.endswith(".csv")]
        return TextRecord(place.name, {file.removesuffix(".csv"): read(place, file) for file in files})


def read(place: Place, file: str) -> list[RecordedDoc]:
    with place.fetch(file).open(newline="", encoding="utf-8") as rows:
        return [
            record_answer(row["prompt"], row["answer"], row["gold"], {"em": row["right"] == "1"}, row.get("subtask"))
            for row in csv.DictReader(rows)
        ]
