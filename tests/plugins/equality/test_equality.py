"""equality: identical endpoints are the same, others different; what is asked, kept and resumed."""

from __future__ import annotations

from pathlib import Path

from sampled_server import equality, mixed, sampled_server


def test_two_servers_of_one_model_are_the_same_where_the_answers_suffice(place: Path) -> None:
    with sampled_server() as a, sampled_server() as b:
        tree = equality(place, a, b, "--prompts", "20", "--samples", "20")
    print(tree)


def test_mix(place: Path) -> None:
    with sampled_server() as a, sampled_server(mixed(0.1)) as b:
        tree = equality(place, a, b, "--prompts", "20", "--samples", "20")
    print(tree)
