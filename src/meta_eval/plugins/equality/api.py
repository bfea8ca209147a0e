"""The function of this plug-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.apart import apart
from meta_eval.base.errors import documented
from meta_eval.base.logs import Progress, display_logs, report_progress
from meta_eval.plugins.equality.options import EqualityOptions, check_options, is_address
from meta_eval.sockets import DataError, plural

if TYPE_CHECKING:
    from meta_eval.pack.config import Config
    from meta_eval.plugins.equality.equality_report import EqualityReport
    from meta_eval.plugins.equality.sides import Side


@documented
@apart
def equality(
    a: str | Path,
    b: str | Path,
    config: Config | Path | str | None = None,
    *,
    progress: Progress | None = None,
    **keywords: Any,
) -> EqualityReport:
    """Test whether two endpoints serve the same model, by sampled answers. See docs/plugins/equality/equality.md.

    ::

        from meta_eval import equality

        found = equality("http://localhost:8000/v1", "https://b.example.com/v1", pack="work_dir", samples=20)
        print(found.summary)

    Args:
        a, b: Two addresses, or two files or folders of recorded answers. A is the trusted side.
        config: The configuration or its YAML file. Read only if addresses are asked and no pack is named.
        progress: Called with the current step, the number of answers, and the total.
        keywords: The attributes of `meta_eval.plugins.equality.options.EqualityOptions` by name, such as ``pack``,
            ``prompts`` and ``samples``.

    Raises:
        UserError: An error that the user can fix. Earlier answers are kept; the same call resumes.
    """
    from meta_eval.plugins.equality.equality_decision import decide
    from meta_eval.plugins.equality.equality_report import EqualityReport
    from meta_eval.plugins.equality.sides import pair_sides

    options = EqualityOptions(a=str(a), b=str(b), **keywords)
    check_options(options)
    with display_logs(progress):
        if is_address(options.a):
            from meta_eval.plugins.equality.asking import ask_sides

            sides = ask_sides(config, options)
        else:
            from meta_eval.plugins.equality.recorded import read_sides

            sides = read_sides(options)
        paired = pair_sides(*sides)
        if not paired:
            failed = next((side.error for side in sides if side.error), None)
            raise DataError(
                "no prompt has two answers of both sides", where=f"{options.a} and {options.b}",
                hint=f"The first failure: {failed}" if failed else "Record several answers of both to the same prompts",
            )  # fmt: skip
        report_progress("testing")
        decision = decide(paired, *sides)
    return EqualityReport(*sides, paired, decision, tuple(_list_notes(*sides, len(paired))))


def _list_notes(a: Side, b: Side, paired: int) -> list[str]:
    notes = [*a.notes, *b.notes]
    for side, other in ((a, b), (b, a)):
        if left := len(side.texts) - paired:
            notes.append(f"{plural(left, 'prompt')} of {side.label} left out: {other.label} has no two answers to it")
    if (a.place.rstrip("/"), a.model) == (b.place.rstrip("/"), b.model):
        notes.append("both sides are one place: nothing but chance, or what changed meanwhile, can make them differ")
    if a.times and b.times and (a.times[0] > b.times[1] or b.times[0] > a.times[1]):
        notes.append("one side was asked after the other, so what changed meanwhile counts as a difference")
    return notes
