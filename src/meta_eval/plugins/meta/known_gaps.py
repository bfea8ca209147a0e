"""Finds the catalog's reasons why a task's score may differ from the published score."""

from __future__ import annotations

from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.sockets import KnownGapEntry, Template


def find_known_gaps(template: Template, identity: Identity) -> tuple[KnownGapEntry, ...]:
    """The reasons that apply to a task, then what others measured on its rows.

    Args:
        template: The task.
        identity: The model whose published scores it is compared with.
    """
    spec = template.spec
    gaps = [
        KnownGapEntry(text=gap.text, source=gap.source, backends=gap.backends, recorded=gap.recorded)
        for gap in catalog.list_gaps()
        if (not gap.subsets or spec.subset in gap.subsets)
        and (not gap.families or identity.family in gap.families)
        and gap.graded_by in (None, spec.graded_by)
        and gap.row_format in (None, spec.row_format)
    ]
    others = catalog.find_reproductions(identity.model, spec.subset) if identity.model else ()
    measured = [
        KnownGapEntry(
            text=f"Others measured {score.value:g}{f' ({score.averaging})' if score.averaging else ''} on these rows "
            f"({score.source}){f': {score.note}' if score.note else ''}."
        )
        for score in others
    ]
    return (*gaps, *measured)
