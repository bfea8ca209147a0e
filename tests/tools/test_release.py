"""The release: a tag, the package and the changelog fit each other, and workflows run only what they name."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import REPOSITORY
from template_modules import load_module

TOOL = REPOSITORY / "tools" / "release_notes.py"
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
OURS = "./.meta-eval"
SCRIPT = "python3 -I .github/action/gate.py"
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n- Later.\n\n## 1.2.0 (2026-01-02)\n\n### Speed\n\n- Fast.\n\n## 1.1.0\n\n- Old.\n"
)


def checkout(
    folder: Path, *, packaged: str = "1.2.0", imported: str = "1.2.0", cited: str = "1.2.0", changelog: str = CHANGELOG
) -> Path:
    (folder / "src" / "meta_eval" / "base").mkdir(parents=True)
    (folder / "src" / "meta_eval" / "base" / "version.py").write_text(f'__version__ = "{imported}"\n', encoding="utf-8")
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{packaged}"\n', encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    (folder / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {cited}\n", encoding="utf-8")
    return folder


def test_the_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    assert load_module(TOOL).read_notes("v1.2.0", checkout(tmp_path)) == "### Speed\n\n- Fast."


@pytest.mark.parametrize(
    ("tag", "folder", "message"),
    [
        ("v1.2.1", {}, "push the tag v1.2.0"),
        ("1.2.0", {}, "push the tag v1.2.0"),
        ("v1.2.0", {"imported": "1.1.0"}, "make them equal"),
        ("v1.2.0", {"cited": "1.1.0"}, "CITATION.cff another: make them equal"),
        ("v1.3.0", {"packaged": "1.3.0", "imported": "1.3.0", "cited": "1.3.0"}, 'no text under "## 1.3.0"'),
        ("v1.2.0", {"changelog": "## 1.2.0\n\n## 1.1.0\n- Old."}, 'no text under "## 1.2.0"'),
    ],
)
def test_what_does_not_fit_is_refused(tag: str, folder: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        load_module(TOOL).read_notes(tag, checkout(tmp_path, **folder))


def test_a_refusal_is_a_message_and_exit_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", str(TOOL), "v9", str(checkout(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "release: the tag is 'v9', and the package has version 1.2.0: push the tag v1.2.0\n"


def address_tool(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(REPOSITORY / "tools" / "release_address.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_release_names_its_repository_and_its_readme_links_to_files_of_its_version(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text(encoding="utf-8"), encoding="utf-8")
    done = address_tool("https://github.com/owner/name", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Repository"] == "https://github.com/owner/name"
    assert all(url.startswith("https://") for url in project["urls"].values())
    links = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    assert all(link.startswith("https://") for link in links)
    of_files = f"https://github.com/owner/name/blob/v{project['version']}/"
    files = [link.removeprefix(of_files).partition("#")[0] for link in links if link.startswith(of_files)]
    assert "CONTRIBUTING.md" in files
    assert all((REPOSITORY / file).exists() for file in files)
    again = address_tool("https://github.com/owner/name", str(tmp_path))
    assert (again.returncode, again.stderr) == (
        2, "release: pyproject.toml names a repository already: take a fresh checkout\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "address", ["", "owner/name", "http://github.com/owner/name", "https://github.com/owner", 'https://a/b/c"d']
)
def test_what_is_no_address_of_a_repository_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["release_address.py", address, str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(REPOSITORY / "tools" / "release_address.py"), run_name="__main__")
    assert (end.value.code, "https://github.com/OWNER/NAME" in capsys.readouterr().err) == (2, True)


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job.get("steps", [])]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_no_script_holds_an_expression(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used if name != OURS)
    assert not [step["run"] for step in steps(workflow) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_write_only_what_it_names(workflow: Path) -> None:
    tree = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert tree["permissions"] == {"contents": "read"}
    for job in tree["jobs"].values():
        # Who may write runs nothing that comes from a package, or from the checkout of another repository than ours.
        if "write" in job.get("permissions", {}).values():
            checkouts = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
            assert all(step["with"]["repository"] == "${{ inputs.repository }}" for step in checkouts)
            if checkouts:
                assert [step["run"] for step in job["steps"] if "run" in step] == [
                    f"{SCRIPT} name",
                    f"{SCRIPT} comment",
                ]
                continue
            assert not re.search(r"\b(pip|python|make)\b", " ".join(step.get("run", "") for step in job["steps"]))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_no_checkout_keeps_a_token(workflow: Path) -> None:
    checkouts = [step for step in steps(workflow) if "actions/checkout@" in step.get("uses", "")]
    assert all(step.get("with", {}).get("persist-credentials") is False for step in checkouts)


def test_the_job_that_comments_uses_nothing_that_the_judged_code_may_have_written() -> None:
    """The job that runs such code may write any output. It decides only whether there is something to comment on."""
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["comment"]
    assert "needs." in job["if"] and "needs." not in str(job["steps"])
    given = {value for step in job["steps"] for value in (step.get("env", {}) | step.get("with", {})).values()}
    assert "meta-eval-${{ steps.gate.outputs.name }}" in given and "${{ inputs.name }}" in given


def test_only_the_job_that_publishes_may_prove_who_it_is_to_the_registry() -> None:
    jobs = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["environment"] == "release"
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish", "site"]
    assert (jobs["notes"]["needs"], jobs["site"]["needs"]) == ("publish", "publish")


def test_what_is_published_is_built_of_hashed_tools_alone_and_after_the_tests() -> None:
    jobs = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    builders = {
        name for name, job in jobs.items() if any("actions/upload-" in step.get("uses", "") for step in job["steps"])
    }
    assert (builders, set(jobs["publish"]["needs"])) == ({"build", "pages"}, {"build", "pages"})
    for name in builders:
        assert jobs[name]["needs"] == "test"  # which is over: it cannot replace what they upload
        runs = [step["run"] for step in jobs[name]["steps"] if "run" in step]
        (install,) = [run for run in runs if "install" in run]
        found = re.fullmatch(r"pip install --require-hashes --only-binary :all: -r (\.ci/[\w-]+\.txt)", install)
        assert found
        text = (REPOSITORY / found[1]).read_text(encoding="utf-8").replace("\\\n", "")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[\w.-]+==\S+ (; [^#]+)?( +--hash=sha256:[0-9a-f]{64})+", line) for line in lines)
        assert not [run for run in runs if "make" in run or ("-m build" in run and "--no-isolation" not in run)]


def test_newer_actions_and_packages_of_ci_are_asked_for() -> None:
    updates = yaml.safe_load((REPOSITORY / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {(of["package-ecosystem"], of["directory"]) for of in updates} == {("github-actions", "/"), ("pip", "/.ci")}


def test_the_reusable_workflow_gives_every_input_to_the_action() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8"))
    (given,) = [step["with"] for step in workflow["jobs"]["gate"]["steps"] if step.get("uses") == OURS]
    of_action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))["inputs"]
    inputs = workflow[True]["workflow_call"]["inputs"]
    assert given.keys() == of_action.keys() - {"token", "python"}
    assert all(given[name] == f"${{{{ inputs.{name} }}}}" for name in given.keys() - {"comment"})
    assert inputs.keys() == given.keys() - {"comment"} | {"repository", "ref", "runs-on"}
    alike = inputs.keys() & of_action.keys() - {"history"}
    assert all(inputs[name].get("default") == of_action[name].get("default") for name in alike)


def test_the_image_has_what_the_wheel_is_built_of_and_the_vllm_of_the_tests() -> None:
    lines = (REPOSITORY / "examples" / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {path for line in lines if line.startswith("COPY ") for path in line.split()[1:-1]}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    built = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]
    included = {Path(path).parts[0] for name in ("only-include", "force-include") for path in built["wheel"][name]}
    assert {"src", "pyproject.toml", project["readme"], *included} <= copied
    assert all((REPOSITORY / path).exists() for path in copied)
    (image,) = [line.split()[1] for line in lines if line.startswith("FROM ")]
    version = re.findall(r":v(\d+\.\d+)\.\d+$", image)[0]
    page = REPOSITORY / "docs/plugins/engines/scale.md"  # a plug-in's
    assert not page.exists() or f"vLLM {version} on a CPU" in page.read_text(encoding="utf-8")
