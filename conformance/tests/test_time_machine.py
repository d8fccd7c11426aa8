"""The time machine: what convicts and what acquits, that tox pins what the table says, and what the records say."""

from __future__ import annotations

import configparser
import gzip
import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attnspec.core.errors import RecordError
from attnspec.core.nouns import Verdict
from attnspec.spec.load import load_spec
from helpers.places import CHECKOUT

HELD, VIOLATED, ERRORED, INAPPLICABLE = Verdict.HELD, Verdict.VIOLATED, Verdict.ERRORED, Verdict.INAPPLICABLE


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdict", CHECKOUT / "conformance" / "time_machine" / "verdict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    importlib.import_module("sys").modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


machine = _loaded()
PAIRS = machine.read_pairs()


@cache
def whole_table() -> Any:  # noqa: ANN401  (the module is loaded by its path)
    """What the records say of every pair: it takes seconds to read them."""
    return machine.table(PAIRS)


def release(**verdicts: Verdict | tuple[Verdict, ...]) -> Any:  # noqa: ANN401  (the module is loaded by its path)
    found = {clause: frozenset(each if isinstance(each, tuple) else (each,)) for clause, each in verdicts.items()}
    return machine.Release("1.0", 1, found)


@pytest.mark.parametrize(("found", "is_convicted"), [
    ({"a": VIOLATED, "b": VIOLATED}, True),
    ({"a": (HELD, VIOLATED), "b": VIOLATED}, True),
    ({"a": VIOLATED, "b": HELD}, False),
    ({"a": VIOLATED, "b": ERRORED}, False),
    ({"a": VIOLATED}, False),
])
def test_a_release_is_convicted_by_every_clause_that_names_its_bug(
        found: dict[str, Verdict], is_convicted: bool) -> None:
    assert release(**found).convicts(("a", "b")) is is_convicted


@pytest.mark.parametrize(("found", "is_acquitted"), [
    ({"a": HELD, "b": HELD, "c": VIOLATED}, True),
    ({"a": (HELD, INAPPLICABLE), "b": HELD}, True),
    ({"a": INAPPLICABLE, "b": HELD}, False),
    ({"a": (HELD, ERRORED), "b": HELD}, False),
    ({"a": (HELD, VIOLATED), "b": HELD}, False),
    ({"b": HELD}, False),
])
def test_a_release_is_acquitted_by_clauses_that_were_put_to_it_and_held(
        found: dict[str, Verdict], is_acquitted: bool) -> None:
    assert release(**found).acquits(("a", "b")) is is_acquitted


def test_every_clause_of_the_table_is_a_clause_of_the_law() -> None:
    known = {clause.id for clause in load_spec().clauses}
    assert {clause for pair in PAIRS for clause in pair.clauses} <= known


def test_tox_pins_the_releases_of_the_table_and_judges_its_subjects() -> None:
    section = _tox_section()
    for pair in PAIRS:
        for side, version in (("buggy", pair.buggy), ("mended", pair.mended)):
            factors = rf"(\S+, )*{pair.id}(-{side})?(, \S+)*"
            pin = rf"(?m)^\s*{factors}: (python -m pip install .*)?{pair.library}=={re.escape(version)}$"
            assert re.search(pin, section), f"{pair.id}: no pin of {pair.library} {version}"
        judged = re.search(rf"(?m)^\s*{pair.id}: \{{\[time-machine\]judge(_halves|_harder)?\}} (.+)$", section)
        assert judged is not None, pair.id
        assert set(judged[2].split()) == set(pair.subjects)
        assert (judged[1] == "_halves") == (pair.dtype == "float16")


def _tox() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read(CHECKOUT / "tox.ini", encoding="utf-8")
    return parser


def _tox_section() -> str:
    parser = _tox()
    name = next(name for name in parser.sections() if name.startswith("testenv:tm-{"))
    assert set(re.findall(r"[a-z]+-\d+", name)) == {pair.id for pair in PAIRS}
    return "\n".join(parser[name].values())


@pytest.mark.parametrize("kind", ["tm", "audit"])
def test_tox_judges_libraries_from_outside_their_environments(kind: str) -> None:
    parser = _tox()
    section = parser[next(name for name in parser.sections() if name.startswith(f"testenv:{kind}-{{"))]
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    installed = "\n".join([section["deps"], section["commands_pre"], *groups["audit"]])
    assert section["package"] == "skip"
    assert "extras" not in section
    assert not re.search(r"attnspec|hypothesis|pytest", installed)
    commands = parser["time-machine" if kind == "tm" else "audit"]
    judging = [command for name, command in commands.items() if name.startswith(("judge", "command"))]
    assert judging
    assert all(re.match(r"- \{\[judge\]attnspec\} (check|audit) --python \{env_python\} ", each) for each in judging)


def test_a_record_that_is_missing_says_how_to_make_it(tmp_path: Path) -> None:
    message = r"^there is no record of tm-onnx-7118-buggy: run tox -e tm-onnx-7118-buggy\.$"
    with pytest.raises(RecordError, match=message):
        machine.read_release(PAIRS[0], "buggy", tmp_path)


def test_a_record_of_another_release_is_refused(tmp_path: Path) -> None:
    other = (machine.RECORDS / "tm-onnx-7118-mended.jsonl.gz").read_bytes()
    (tmp_path / "tm-onnx-7118-buggy.jsonl.gz").write_bytes(other)
    with pytest.raises(RecordError, match=r"^tm-onnx-7118-buggy\.jsonl\.gz is of onnx 1\.19\.0, not 1\.18\.0\.$"):
        machine.read_release(PAIRS[0], "buggy", tmp_path)


def test_a_record_of_a_release_that_was_not_there_is_refused(tmp_path: Path) -> None:
    record = (machine.RECORDS / "tm-onnx-7118-buggy.jsonl.gz").read_bytes()
    path = tmp_path / "tm-onnx-7118-buggy.jsonl"
    path.write_bytes(gzip.decompress(record).replace(b'"version": "1.18.0"', b'"version": ""'))
    (tmp_path / "tm-onnx-7118-buggy.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(RecordError, match=r"is of onnx without a version, not 1\.18\.0\.$"):
        machine.read_release(PAIRS[0], "buggy", tmp_path)


def test_records_convict_every_buggy_release_and_acquit_the_mended() -> None:
    verdicts, is_right = whole_table()
    assert is_right, verdicts


def test_the_page_shows_what_the_records_say() -> None:
    page = machine.PAGE.read_text(encoding="utf-8")
    assert page == machine.written(page, whole_table()[0])
