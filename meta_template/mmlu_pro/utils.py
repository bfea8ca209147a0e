"""The functions that the YAML files of this folder name. Edit them in your copy.

The functions below are shared: they come from ``_common``. To change one, replace its line by a function of the same
name. Your function takes the same arguments and returns the same types. You need not copy ``_common``: if your template
folder has none, prepare uses the shipped one.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# lm-eval loads this file outside any package. These two lines make imports from other folders work: keep them.
_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, letters = load.module(".._common.rows"), load.module(".._common.letters")


def make_doc(row: dict) -> dict:
    """Make a doc with the common columns.

    To add a column of yours, return ``{**rows.make_doc(row), "year": row["year"]}``.
    """
    return rows.make_doc(row)


process_docs = rows.docs_by(make_doc)
doc_to_text = rows.doc_to_text
announced = letters.announced
announced_first = letters.announced_first
process_results = rows.process_results
macro_average = rows.macro_average
