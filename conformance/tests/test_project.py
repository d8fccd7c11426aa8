"""What somebody needs who wants to join: forms of issues, workflows, a citation, and metadata that invents nothing."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path
from typing import Any

import attnspec
import pytest
import yaml
from helpers.places import CHECKOUT

GITHUB = CHECKOUT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(path: Path) -> Any:  # noqa: ANN401  # what a file of YAML holds
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands() -> list[list[str]]:
    """The words of every command that a workflow runs."""
    return [line.split() for path in WORKFLOWS for job in read_yaml(path)["jobs"].values()
            for step in job["steps"] if "run" in step for line in step["run"].splitlines()]


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_something_and_each_field_says_what(form: Path) -> None:
    known = read_yaml(form)
    fields = [field for field in known["body"] if field["type"] != "markdown"]
    assert known["name"]
    assert known["description"]
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_there_is_a_form_for_an_unfair_verdict_a_bug_and_a_library() -> None:
    assert [form.stem for form in FORMS] == ["bug-it-found", "library-to-audit", "unfair-verdict"]


def test_workflows_run_the_tests_and_labels_of_tox_that_exist() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(CHECKOUT / "tox.ini", encoding="utf-8")
    labels = {line.partition("=")[0].strip() for line in tox["tox"]["labels"].splitlines() if line}
    asked = {words[-1] for words in commands() if words[0] == "tox"}
    assert [".ci/run"] in commands()
    assert (CHECKOUT / ".ci" / "run").is_file()
    assert asked == {"static", "matrix"}
    assert asked <= labels


def test_a_citation_names_this_version_and_the_authors_of_the_package() -> None:
    citation = read_yaml(CHECKOUT / "CITATION.cff")
    assert str(citation["version"]) == PROJECT["version"] == attnspec.__version__
    assert citation["authors"] == PROJECT["authors"] == [{"name": "attnspec contributors"}]


def test_nothing_is_said_that_only_its_owners_can_decide() -> None:
    assert PROJECT["urls"] == {}
    assert "license" not in PROJECT
    assert not [each for each in PROJECT["classifiers"] if each.startswith("License")]
