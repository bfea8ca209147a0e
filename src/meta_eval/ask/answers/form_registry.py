"""Every form of files of requests and answers, by the name that ``export --to`` has."""

from __future__ import annotations

from meta_eval.ask.answers.answer_form import AnswerForm
from meta_eval.ask.answers.requests_form import RequestsForm
from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.extensions import Extension, ExtensionError, find_extensions, load_extension
from meta_eval.base.logs import log

ENTRY_POINTS = "meta_eval.answer_forms"

OWN = RequestsForm()


def find_form(name: str) -> AnswerForm:
    """The form of a name.

    Raises:
        ConfigError: There is none of this name.
        ExtensionError: Its package cannot be loaded.
    """
    if name == OWN.name:
        return OWN
    others = find_extensions(ENTRY_POINTS)
    if name not in others:
        names = sorted({OWN.name, *others})
        raise ConfigError(
            f"unknown form {name}{suggest_name(name, names)}", where="--to", hint=f"Available: {', '.join(names)}"
        )
    return _load(others[name])


def list_forms() -> list[AnswerForm]:
    """The forms of other packages, by name, then our own. A broken one is a warning."""
    forms = []
    for extension in find_extensions(ENTRY_POINTS).values():
        try:
            forms.append(_load(extension))
        except ExtensionError as error:
            log.warning(str(error))
    return [*forms, OWN]


def _load(extension: Extension) -> AnswerForm:
    form: AnswerForm = load_extension(extension, AnswerForm, name=(str,))
    if form.name != extension.name:
        value = extension.points[0].value
        raise ExtensionError(f"defines the form {form.name}", where=f"{extension.name} ({value})")
    return form
