"""The functions that the YAMLs of this folder name: what to change in a copy of it.

They stand in ``_common``, where other tasks share them. For another way of your own, write a function of that name here
in place of the shared one; it gets and returns what that one does. ``_common`` itself need not be copied: prepare
takes the shipped one where the template folder has none.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# lm-eval gives this file no package to import others from; these two lines do. Keep them as they are.
_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, letters = load.module(".._common.rows"), load.module(".._common.letters")


def make_doc(row: dict) -> dict:
    """The columns that every doc has; yours may have more: ``{**rows.make_doc(row), "year": row["year"]}``."""
    return rows.make_doc(row)


process_docs = rows.docs_by(make_doc)
doc_to_text = rows.doc_to_text
announced = letters.announced
announced_first = letters.announced_first
process_results = rows.process_results
macro_average = rows.macro_average
