"""The deletion test: does everything else work when plug-ins are deleted?

It copies the repository, deletes the folders of some plug-ins with their tests, pages and entry points, installs the
copy beside the packages of this environment, writes the generated pages anew, checks the contracts of imports, and runs
the tests.

    python tools/without_plugins.py meta             # one plug-in: the tests of the core that are near plug-ins
    python tools/without_plugins.py --each           # each alone; those that only read logs of a harness, together
    python tools/without_plugins.py --all            # all of them: all tests of the core
    python tools/without_plugins.py --all -- -x -k compare  # what follows -- is for pytest, in place of these tests
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PLUGINS = sorted(path.parent.name for path in (REPOSITORY / "src/meta_eval/plugins").glob("*/__init__.py"))
# Tests of sockets, verbs, keys, messages and pages, and the road from a recorded run to a comparison.
NEAR = (
    "tests/test_pages.py", "tests/test_road.py", "tests/test_wheel.py", "tests/cli/test_verbs.py", "tests/config",
    "tests/boundary/test_extensions.py", "tests/records/test_formats.py", "tests/reports/test_view_socket.py",
    "tests/test_layout.py::test_the_core_names_no_verb_and_no_backend_of_a_plugin",
    "tests/test_layout.py::test_files_that_the_architecture_names_are_there",
)  # fmt: skip
# Plug-ins with a record format and nothing else. None imports another, as .importlinter says.
READERS = ("bfcl", "evalplus", "evalscope", "helm", "inspect_ai", "nemo_evaluator", "promptfoo", "simple_evals")
NOT_ENGINES = "not engine and not browser and not lighteval"


def copy_without(names: Sequence[str], target: Path) -> None:
    """Copy what git knows, without these plug-ins."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    gone = tuple(f"{folder}/{name}/" for folder in FOLDERS for name in names)
    for file in filter(None, listed.split("\0")):
        if not file.startswith(gone) and (REPOSITORY / file).exists():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / file, target / file)
    for folder in FOLDERS:
        (target / folder).mkdir(exist_ok=True)
    project = target / "pyproject.toml"
    lines = project.read_text(encoding="utf-8").splitlines(keepends=True)
    dead = re.compile(rf'= "meta_eval\.plugins\.(?:{"|".join(names)})\b')
    project.write_text("".join(line for line in lines if not dead.search(line)), encoding="utf-8")
    delete_pages(names, target)


def delete_pages(names: Sequence[str], target: Path) -> None:
    """Delete the pages elsewhere that say they are a plug-in's, and each line that says so or links to a deleted page.

    Of such a page at the top only the commands are deleted.
    """
    some = "|".join(names)
    top = [target / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")]
    pages = [*top, *(target / "docs").rglob("*.md")]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    own = [page for page, text in texts.items() if re.search(rf"^<!-- plug-in: (?:{some}) -->$", text, re.MULTILINE)]
    for page in own:
        if page in top:
            texts[page] = re.sub(r"^```console\n.*?^```$\n", "", texts[page], flags=re.MULTILINE | re.DOTALL)
            continue
        page.unlink()
        del texts[page]
    own = [page for page in own if page not in top]
    marks = rf"<!-- plug-in: (?:{some}) -->", rf"\bplugins/(?:{some})/"
    links = re.compile("|".join([*marks, *(rf"\b{re.escape(page.name)}\b" for page in own)]))
    for page, text in texts.items():
        kept = "".join(line for line in text.splitlines(keepends=True) if not links.search(line))
        page.write_text(kept, encoding="utf-8")


FOLDERS = ("src/meta_eval/plugins", "tests/plugins", "docs/plugins")


def install(target: Path) -> Path:
    """Make an environment with the copy and the packages of this one; the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", target / ".venv"], check=True)
    python = target / ".venv/bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--editable", target],
        check=True,
    )
    # Behind the copy. A .pth in those packages, as of an editable meta-eval, is not read.
    site = subprocess.run(
        [python, "-c", 'import sysconfig; print(sysconfig.get_path("purelib"))'],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    packages = [path for path in sys.path if path.endswith("-packages")] or [sysconfig.get_path("purelib")]
    (Path(site) / "zz_packages.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    for script in Path(sys.executable).parent.iterdir():  # tests start tools of the environment by their names
        copy = python.parent / script.name
        if not copy.exists() and script.is_file() and not script.name.startswith(("python", "activate")):
            text = script.read_bytes()
            copy.write_bytes(text.replace(str(Path(sys.executable).parent).encode(), str(python.parent).encode()))
            copy.chmod(0o755)
    return python


def check_without(names: Sequence[str], pytest_arguments: Sequence[str]) -> bool:
    """Whether everything else is green without these plug-ins. What the tests print is printed at their end."""
    with tempfile.TemporaryDirectory(prefix="without-") as temporary, (Path(temporary) / "log").open("w+") as log:
        target = Path(temporary) / "meta-eval"
        copy_without(names, target)
        subprocess.run(["git", "init", "--quiet", target], check=True)
        subprocess.run(["git", "-C", target, "add", "--all"], check=True)
        python = install(target)
        environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}

        def run(*words: str) -> bool:
            return not subprocess.run(
                [python, *words], cwd=target, env=environment, check=False, stdout=log, stderr=subprocess.STDOUT
            ).returncode

        is_generated = run("tools/write_pages.py")
        is_kept = run("-c", "import sys, importlinter.cli; sys.exit(importlinter.cli.lint_imports())")
        # Few tests are done sooner by a process that imports everything once.
        workers = () if pytest_arguments == NEAR else ("-n", "2", "--dist", "loadfile")
        arguments = ["-m", NOT_ENGINES, *workers, "-p", "no:cacheprovider", *pytest_arguments]
        is_green = run("-m", "pytest", *arguments) and is_generated and is_kept
        log.seek(0)
        print(f"without {', '.join(names)}\n{log.read()}", flush=True)
        return is_green


def main() -> None:
    ours = sys.argv[1:]
    more = ours[ours.index("--") + 1 :] if "--" in ours else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PLUGIN", help=f"any of {', '.join(PLUGINS)}")
    parser.add_argument("--each", action="store_true", help="each plug-in alone; readers of logs together")
    parser.add_argument("--all", action="store_true", help="all plug-ins at once")
    chosen = parser.parse_args(ours[: ours.index("--")] if "--" in ours else ours)
    if unknown := set(chosen.names) - set(PLUGINS):
        parser.error(f"no such plug-in: {', '.join(sorted(unknown))}")
    readers = [name for name in READERS if name in PLUGINS]
    runs = [*([name] for name in PLUGINS if name not in readers), readers] if chosen.each else []
    runs += [chosen.names] if chosen.names else []
    if not runs and not chosen.all:
        parser.error("name a plug-in, or use --each or --all")
    with ThreadPoolExecutor(2) as threads:  # each is a single process
        green = dict(
            zip(map(tuple, runs), threads.map(lambda names: check_without(names, more or NEAR), runs), strict=True)
        )
    if chosen.all:
        green[tuple(PLUGINS)] = check_without(PLUGINS, more)
    failed = [names for names, is_green in green.items() if not is_green]
    for names in failed:
        print(f"not green without {', '.join(names)}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
