"""`attnspec init` finds things out in a process that has nothing of attnspec, also in another environment."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import Verdict
from attnspec.core.surroundings import Surroundings
from attnspec.hosting.client import Client, HostDied, ProcessDeath
from attnspec.scaffold import trial_adapter
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.written_adapter import write_for
from attnspec.subjects.target import host_of
from helpers.commands import Cli
from helpers.sources import JUDGES

ATTENTION = """
import os, sys, time
import numpy as np

def attend(query, key, value):
    {first}
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
"""
ALONE = f"assert not {JUDGES!r} & {{name.partition('.')[0] for name in sys.modules}}"


def write_module(folder: Path, first: str, name: str = "mine") -> None:
    (folder / f"{name}.py").write_text(ATTENTION.format(first=first), encoding="utf-8")


def find_form_and_trier(target: str, surroundings: Surroundings | None = None) -> tuple[CallForm, Trier]:
    there = surroundings or Surroundings()
    trier = Trier(CalleeProcess(host_of(target, there), time.monotonic() + there.deadline))
    return find_form(target, trier), trier


def test_nothing_of_attnspec_is_where_the_callee_lives(here: Path) -> None:
    write_module(here, ALONE)
    assert find_form_and_trier("mine:attend")[0].arrangement.shape == "(B,H,{L},D)"


def test_no_adapter_that_is_tried_is_written_into_a_file(here: Path) -> None:
    write_module(here, "pass")
    trier = find_form_and_trier("mine:attend")[1]
    assert trier.tried_count > 2
    assert [path.name for path in here.rglob("*") if path.suffix == ".py"] == ["mine.py"]


def test_what_lives_in_another_environment_is_found_out_there(here: Path, cli: Cli, bare: Path) -> None:
    write_module(here, f"assert sys.prefix == {str(bare.parents[1])!r}")
    code, out, err = cli("init", "mine:attend", "--python", str(bare))
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        f"Next: attnspec check mine/attend --implementations implementations --python {bare}",
        'In a test file: test_attention = attnspec.gate("mine/attend", implementations="implementations", '
        f'python="{bare}")']
    adapter = (here / "implementations/mine/attend.py").read_text(encoding="utf-8")
    assert "from mine import attend as theirs" in adapter


def test_a_host_that_sees_no_file_of_this_machine_is_handed_the_module(here: Path, cli: Cli, bare: Path) -> None:
    write_module(here, f"assert not __file__.startswith({str(here)!r})")
    code, out, err = cli("init", "mine:attend", "--host", str(bare))
    assert (code, err) == (0, "")
    assert f"--implementations implementations --host {bare}" in out


def test_what_another_environment_lacks_is_told(here: Path, cli: Cli, bare: Path) -> None:
    write_module(here, "pass")
    (here / "mine.py").write_text("import no_such_framework\n", encoding="utf-8")
    code, _, err = cli("init", "mine:attend", "--python", str(bare))
    assert code == 2
    assert err.startswith("attnspec: importing 'mine' needs the module 'no_such_framework', which was not found in ")
    assert err.endswith(" or the installed packages.\n")


def test_a_form_that_ends_the_process_is_one_that_is_not_right(here: Path) -> None:
    write_module(here, "query.ndim == 4 and os._exit(9)")
    form, trier = find_form_and_trier("mine:attend")
    assert form.arrangement.shape == "(B·H,{L},D)"
    assert 1 <= trier.death_count < trial_adapter.MOST_DEATHS


def test_a_search_ends_where_the_callee_does_not_return(here: Path) -> None:
    write_module(here, "time.sleep(60)")
    with pytest.raises(TargetError, match=r"the implementation had not returned after 1 s\. It was given this form: a "
                                          r"function that takes NumPy arrays"):
        find_form_and_trier("mine:attend", Surroundings(deadline=1))


@pytest.mark.nightly
def test_a_search_that_takes_too_long_ends(here: Path) -> None:
    write_module(here, "time.sleep(0.3); raise ValueError")
    with pytest.raises(TargetError, match=(
            r"it had not returned after 2 s\. Give it longer: --deadline\. Nearest is a function that takes .*; "
            r"but it raises ValueError\.$")):
        find_form_and_trier("mine:attend", Surroundings(deadline=2))


def test_a_callee_that_is_not_described_in_order_is_an_error(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_module(here, "pass")
    monkeypatch.setattr(Client, "request", lambda *_, **__: ({"name": "attend"}, []))
    with pytest.raises(TargetError, match=r"the host does not describe 'mine:attend' as docs/protocol\.md says: "
                                          r"KeyError\('home'\)"):
        find_form_and_trier("mine:attend")


def test_a_callee_that_ends_the_process_when_looked_at_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def died(*_: object, **__: object) -> None:
        raise HostDied(ProcessDeath(Verdict.CRASHED, "the process died while the implementation ran (SIGSEGV)"))

    write_module(here, "pass")
    monkeypatch.setattr(Client, "request", died)
    with pytest.raises(TargetError, match=r"^looking at 'mine:attend' ends the process \(SIGSEGV\)\.$"):
        find_form_and_trier("mine:attend")


KERAS = Surroundings(command=(sys.executable,))


@pytest.mark.parametrize(("installed", "asked", "backend"), [
    ({"keras", "torch"}, {}, {"KERAS_BACKEND": "torch"}), ({"keras"}, {}, {"KERAS_BACKEND": "numpy"}),
    ({"keras", "tensorflow", "torch"}, {}, {}), ({"torch"}, {}, {}), ({"keras", "torch"}, {"KERAS_BACKEND": "jax"}, {}),
])
def test_keras_computes_with_what_is_there(monkeypatch: pytest.MonkeyPatch, installed: set[str],
                                           asked: Mapping[str, str], backend: Mapping[str, str]) -> None:
    given: list[Surroundings] = []

    def started(_: str, there: Surroundings, __: str) -> None:
        given.append(there)
        raise ZeroDivisionError

    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("attnspec.scaffold.written_adapter.is_installed", lambda name: name in installed)
    monkeypatch.setattr("attnspec.scaffold.written_adapter.host_of", started)
    with pytest.raises(ZeroDivisionError):
        write_for("keras.layers:Attention", KERAS)
    assert {name: value for name, value in given[0].environment.items() if name.startswith("KERAS")} == backend
