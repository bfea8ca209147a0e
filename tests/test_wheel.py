"""The wheel brings what messages point to."""

from __future__ import annotations

import re
import tomllib

from places import REPOSITORY


def test_every_page_is_in_the_wheel() -> None:
    tree = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    brought = tree["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    docs = REPOSITORY / "docs"
    top = [path.relative_to(REPOSITORY).as_posix() for path in docs.iterdir() if path.name != "examples"]
    assert {name: target for name, target in brought.items() if name.startswith("docs/")} == {
        name: f"meta_eval/assets/{name}" for name in top
    }


def test_every_page_that_code_names_is_there() -> None:
    named = {
        name
        for path in (REPOSITORY / "src").rglob("*.py")
        for name in re.findall(r"\bdocs/[a-z_/]+\.md", path.read_text(encoding="utf-8"))
    }
    assert "docs/method/code_tasks.md" in named
    assert all((REPOSITORY / name).is_file() for name in named)


def test_the_extra_asks_for_the_vllm_that_lm_eval_asks_for() -> None:
    from importlib.metadata import requires

    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    asked = next(line for line in requires("lm_eval") or () if line.startswith("vllm") and "extra" in line)
    version = re.search(r">=\s*([\d.]+)", asked)
    assert version is not None
    assert f'vllm = ["vllm>={version[1]}"]' in text


def test_no_file_names_the_host_of_a_package_registry() -> None:
    hosts = re.compile(r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|deb\.debian\.org", re.IGNORECASE)
    ours = [*REPOSITORY.glob("*.*"), REPOSITORY / "Makefile"]
    for folder in ("src", "tools", "docs", ".ci", ".github", "benchmarks", "meta_template"):
        ours += (REPOSITORY / folder).rglob("*")
    for path in ours:
        if path.is_file() and path.suffix not in (".pyc", ".png"):
            assert not hosts.search(path.read_text(encoding="utf-8", errors="replace")), path
