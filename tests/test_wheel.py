"""The wheel brings what messages point to."""

from __future__ import annotations

import re
import tomllib

from places import REPOSITORY

WHEEL = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
    "wheel"
]


def test_every_page_is_in_the_wheel() -> None:
    docs = REPOSITORY / "docs"
    top = [path.relative_to(REPOSITORY).as_posix() for path in docs.iterdir() if path.name != "examples"]
    # Without plug-ins there are no pages of theirs.
    assert {name for name in WHEEL["only-include"] if name.startswith("docs/")} == {*top, "docs/plugins"}
    assert WHEEL["sources"]["docs"] == "meta_eval/base/assets/docs"


def test_an_editable_install_brings_no_module_but_the_package() -> None:
    """What is forced into a wheel is copied by an editable install too. `pytest -W error` ends at such a module."""
    forced = [REPOSITORY / name for name in WHEEL["force-include"]]
    assert all(path.is_file() and path.suffix != ".py" for path in forced)


def test_the_supported_pythons_are_those_that_are_tested() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run, readme, makefile = (
        (REPOSITORY / name).read_text(encoding="utf-8") for name in (".ci/run", "README.md", "Makefile")
    )
    (ends,) = re.findall(r"^oldest_python=3\.(\d+) newest_python=3\.(\d+) ", run, re.MULTILINE)
    first, last = map(int, ends)
    assert project["requires-python"] == f">=3.{first},<3.{last + 1}"
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3" in line]
    assert named == [f"3.{minor}" for minor in range(first, last + 1)]
    assert f"Python {', '.join(named[:-1])} or {named[-1]}" in readme
    assert f"(3, {first}) <= sys.version_info < (3, {last + 1})" in makefile


def test_every_page_that_code_names_is_there() -> None:
    named = {
        name
        for path in (REPOSITORY / "src").rglob("*.py")
        for name in re.findall(r"\bdocs/[a-z_/]+\.md", path.read_text(encoding="utf-8"))
    }
    assert "docs/guides/engines.md" in named
    assert all((REPOSITORY / name).is_file() for name in named)


def test_the_extra_asks_for_the_vllm_that_lm_eval_asks_for() -> None:
    from importlib.metadata import requires

    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    asked = next(line for line in requires("lm_eval") or () if line.startswith("vllm") and "extra" in line)
    version = re.search(r">=\s*([\d.]+)", asked)
    assert version is not None
    assert f'vllm = ["vllm>={version[1]}"]' in text


def test_no_file_names_the_host_of_a_package_registry() -> None:
    hosts = (b"pypi.org", b"pythonhosted.org", b"download.pytorch.org", b"deb.debian.org")
    ours = [*REPOSITORY.glob("*.*"), REPOSITORY / "Makefile"]
    for folder in ("src", "tools", "docs", ".ci", ".github", "benchmarks", "meta_template"):
        ours += (REPOSITORY / folder).rglob("*")
    for path in ours:
        if path.is_file() and path.suffix not in (".pyc", ".png"):
            text = path.read_bytes().lower()
            assert not any(host in text for host in hosts), path
