"""The workflow, its templates, the hooks and the citation: what GitHub would refuse is found here.

Nothing of it runs on this machine, so the essential rules of GitHub's workflow syntax are checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EVENTS = {"push", "pull_request", "schedule", "workflow_dispatch", "release"}
TOP = {"name", "on", "permissions", "concurrency", "env", "jobs", "defaults"}
JOB = {
    *("name", "runs-on", "steps", "needs", "if", "strategy", "timeout-minutes", "permissions", "env"),
    *("environment", "outputs", "concurrency", "defaults", "continue-on-error"),
}
STEP = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "timeout-minutes"}
CONTEXTS = r"github|env|matrix|steps|needs|runner|secrets|vars|job|strategy|inputs"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def faults(text: str) -> list[str]:
    """Return what GitHub would refuse or silently ignore in a workflow."""
    workflow = yaml.safe_load(text)
    workflow["on"] = workflow.pop(True, workflow.get("on", {}))  # YAML reads the word as a truth value
    found = [f"unknown key {key}" for key in set(workflow) - TOP]
    found += [f"unknown event {event}" for event in set(workflow["on"]) - EVENTS]
    found += expressions(text)
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        found += [f"{name}: unknown key {key}" for key in set(job) - JOB]
        found += [f"{name}: no {key}" for key in {"runs-on", "steps"} - set(job)]
        needs = job.get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        found += [f"{name}: needs {other}, which is no job" for other in needs if other not in jobs]
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        for used in set(re.findall(r"\bmatrix\.(\w+)", yaml.safe_dump(job))):
            found += [f"{name}: matrix.{used} is missing in {row}" for row in rows if used not in row]
        for step in job.get("steps", []):
            found += step_faults(name, step)
    return found


def step_faults(name: str, step: dict[str, Any]) -> list[str]:
    found = [f"{name}: unknown key {key}" for key in set(step) - STEP]
    if ("uses" in step) == ("run" in step):
        found.append(f"{name}: a step must have either uses or run")
    if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@v?[\w.]+", step["uses"]):
        found.append(f"{name}: {step['uses']} names no version")
    if "with" in step and "uses" not in step:
        found.append(f"{name}: with belongs to uses")
    targets = re.findall(r"^([\w.]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for target in re.findall(r"^make (\w+)", str(step.get("run", "")), re.MULTILINE):
        found += [] if target in targets else [f"{name}: the Makefile has no target {target}"]
    return found


def expressions(text: str) -> list[str]:
    inside = re.findall(r"\$\{\{(.*?)\}\}", text)
    found = [] if text.count("${{") == len(inside) else ["an expression is not closed"]
    for expression in inside:
        bare = re.sub(r"'[^']*'", "", expression)
        for name in re.findall(r"(?<![.\w-])([a-zA-Z_][\w-]*)\.", bare):
            found += [] if re.fullmatch(CONTEXTS, name) else [f"unknown context {name}"]
    return found


def test_workflow_is_one_that_github_takes() -> None:
    assert faults(WORKFLOW.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("needs: [lint, ", "needs: [lynt, "), "which is no job"),
        (lambda t: t.replace("runs-on:", "run-on:"), "unknown key run-on"),
        (lambda t: t.replace("actions/checkout@v4", "actions/checkout"), "names no version"),
        (lambda t: t.replace("run: make lint", "run: make linting"), "no target linting"),
        (lambda t: t.replace("matrix.python }}", "matrix.pyton }}"), "matrix.pyton is missing"),
        (lambda t: t.replace("matrix.torch }}", "matrix.torch }"), "not closed"),
        (lambda t: t.replace("${{ github.token", "${{ githup.token"), "unknown context githup"),
        (lambda t: t.replace("pull_request:", "pull_requests:"), "unknown event"),
        (lambda t: t.replace("run: make docs", "with: make docs"), "either uses or run"),
    ],
)
def test_broken_workflows_are_noticed(change: Callable[[str], str], words: str) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    assert change(text) != text
    assert any(words in fault for fault in faults(change(text)))


def test_workflow_tests_the_oldest_versions_of_the_metadata() -> None:
    oldest, newest = read(WORKFLOW)["jobs"]["test"]["strategy"]["matrix"]["include"]
    assert f'requires-python = ">={oldest["python"]}"' in PROJECT
    assert re.search(r'"torch>=([\d.]+)"', PROJECT)[1] in oldest["torch"]  # type: ignore[index]
    assert newest["torch"] == "torch"


def test_release_waits_for_everything_that_a_push_runs() -> None:
    jobs = read(WORKFLOW)["jobs"]
    assert set(jobs["release"]["needs"]) == set(jobs) - {"release", "nightly"}


def test_issue_templates_are_forms() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = read(path)
        if path.stem == "config":
            assert set(form) <= {"blank_issues_enabled", "contact_links"}
            continue
        assert {"name", "description", "body"} <= set(form)
        names = [field["id"] for field in form["body"]]
        assert len(set(names)) == len(names)
        assert {field["type"] for field in form["body"]} <= {"textarea", "input", "dropdown", "markdown"}
        assert all(field["attributes"]["label"] for field in form["body"])


def test_hooks_are_local_and_complete() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert {"ruff", "ruff-format", "mypy", "end-of-file"} <= {hook["id"] for hook in local["hooks"]}
    for hook in local["hooks"]:
        assert {"id", "name", "entry", "language"} <= set(hook)
        if hook["language"] == "pygrep":
            re.compile(hook["entry"].encode())


def test_citation_names_the_version_and_licence_of_the_metadata() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    for field in ("version", "license"):
        assert f'{field} = "{citation[field]}"' in PROJECT
    assert not any("url" in field or field == "repository-code" for field in citation), (
        "the address is unknown"
    )
