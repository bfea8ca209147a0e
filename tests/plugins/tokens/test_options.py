"""The verbs of this plug-in on the command line and in Python."""

from __future__ import annotations

import pytest
from command import cli
from verb_lists import check_defaults, check_one_list

import meta_eval
from meta_eval.plugins.tokens.api import audit, fidelity
from meta_eval.plugins.tokens.options import AuditOptions, FidelityOptions

VERBS: dict[str, tuple[type, str]] = {
    "audit": (AuditOptions, "answers config html markdown view as_json"),
    "fidelity": (FidelityOptions, "config noise margin gate html markdown view as_json"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_command_line_and_options_are_one_list(verb: str) -> None:
    check_one_list(verb, *VERBS[verb])
    check_defaults(verb, VERBS[verb][0])


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_a_function_of_meta_eval(verb: str) -> None:
    assert getattr(meta_eval, verb) is {"audit": audit, "fidelity": fidelity}[verb]


def test_a_verb_without_a_function_is_no_attribute() -> None:
    for name in ("slurm", "doctor", "nothing", "_nothing"):
        assert not callable(getattr(meta_eval, name, None))


@pytest.mark.parametrize(
    ("words", "message"), [("fidelity --docs many", "--docs: 'many' is not"), ("fidelity --docs 0", "--docs: ")]
)
def test_an_error_of_usage_has_the_form_of_all_errors(words: str, message: str) -> None:
    done = cli(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
