"""While an implementation computes, the judge works: what is heard of a call is the same as if it had only waited."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Verdict
from attnspec.core.surroundings import HostLanguage, Surroundings
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.host.frames import Entries, Incoming, pack_frame, receive_frame, send_frame
from attnspec.hosting.client import Client, import_folders
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import Precision
from attnspec.problems.problem import Problem
from attnspec.subjects.call import Call, SubjectDied
from attnspec.subjects.callee import Callee
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject
from attnspec.trials.evaluator import Evaluator
from attnspec.vocabulary.observables import look_at
from attnspec.vocabulary.scene import Posed, Scene

PATIENT = """
import os, time
import numpy as np

def attend(query, key, value, *, scale=None):
    if scale == 1:  # until somebody, who does not wait for the answer, writes the file
        while not os.path.exists({file!r}):
            time.sleep(0.01)
    if scale == 2:
        os.abort()
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True) @ value
"""
ONES = {name: np.ones((1, 1, 2, 2), np.float32) for name in ("query", "key", "value")}
CALL = Call(ONES, {}, DType.FLOAT32, ((1, 1, 2, 2),))
WAITS = replace(CALL, keywords={"scale": 1.0})
DIES = replace(CALL, keywords={"scale": 2.0})


def patient(folder: Path, deadline: float = 20) -> Subject:
    (folder / "patient.py").write_text(PATIENT.format(file=str(folder / "written")), encoding="utf-8")
    return load_target(f"{folder}/patient.py:attend", Surroundings(deadline=deadline))


@pytest.fixture
def callee(tmp_path: Path) -> Callee:
    return patient(tmp_path).callee


def test_the_work_is_done_before_there_is_an_answer(callee: Callee, tmp_path: Path) -> None:
    with callee.meanwhile([(tmp_path / "written").touch]):
        assert callee.perform(WAITS).output.all()


def test_each_call_does_one_piece_and_the_rest_is_left(callee: Callee) -> None:
    done: list[int] = []
    pieces: list[Callable[[], object]] = [lambda: done.append(1), lambda: done.append(2), lambda: done.append(3)]
    with callee.meanwhile(pieces):
        callee.perform(CALL)
        assert done == [1]
        callee.perform(CALL)
    callee.perform(CALL)
    assert done == [1, 2]


def test_work_that_raises_costs_no_answer(callee: Callee) -> None:
    with callee.meanwhile([lambda: 1 / 0]):
        assert callee.perform(CALL).output.all()
    assert callee.perform(CALL).output.all()


def test_work_that_asks_its_host_is_left(callee: Callee) -> None:
    with callee.meanwhile([lambda: callee.perform(CALL)]):
        assert callee.perform(CALL).output.all()
    assert callee.perform(CALL).output.all()


@pytest.mark.family(1)
@pytest.mark.parametrize("work", [[], [lambda: time.sleep(1.0)]], ids=["waiting", "working"])
def test_a_death_during_the_work_is_told_the_same(callee: Callee, work: list[Callable[[], object]]) -> None:
    with callee.meanwhile(work), pytest.raises(SubjectDied, match=r"while the implementation ran \(SIGABRT\)") as died:
        callee.perform(DIES)
    assert died.value.verdict is Verdict.CRASHED
    assert "in attend" in died.value.traceback
    assert callee.perform(CALL).output.all()


@pytest.mark.nightly
def test_the_seconds_of_the_work_are_not_the_calls(tmp_path: Path) -> None:
    callee = patient(tmp_path, deadline=1.5).callee
    callee.begin_item()

    def work() -> None:
        time.sleep(2.0)
        (tmp_path / "written").touch()  # the answer comes a little later

    with callee.meanwhile([work]):
        assert callee.perform(WAITS).output.all()
    assert callee.client._spent_seconds < 1  # type: ignore[attr-defined]  # a callee in a process of its own has a client


def test_a_call_that_hangs_during_the_work_has_its_deadline(tmp_path: Path) -> None:
    callee = patient(tmp_path, deadline=1.5).callee
    with callee.meanwhile([lambda: time.sleep(0.5)]), pytest.raises(SubjectDied, match=r"not returned after 1\.5 s"):
        callee.perform(WAITS)


def test_the_truth_is_worked_out_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, written = patient(tmp_path), tmp_path / "written"
    evaluator = Evaluator(subject, DType.FLOAT32, RECOMMENDED)

    def expecting(problem: Problem, precision: Precision, **more: Any) -> Expectation:  # noqa: ANN401  (as it takes)
        written.touch()
        return expect(problem, precision, **more)

    monkeypatch.setattr("attnspec.trials.evaluator.expect", expecting)
    posed = Posed((Problem(DType.FLOAT32, *ONES.values(), scale=1.0),), key="original")
    seen = look_at(Scene(subject, DType.FLOAT32, RECOMMENDED, {"original": posed}, evaluator), "original", "output")
    assert np.allclose(seen.array, seen.truth)


def test_a_host_that_has_begun_answers() -> None:
    client = Client(Surroundings(), path=import_folders())
    client.begin()
    begun = client._starting_process
    assert begun is not None
    assert client.request({"do": "find", "modules": ["numpy"], "distributions": []})[0]["modules"] == {"numpy": True}
    assert client._process is begun
    client.close()


def test_a_host_that_has_begun_ends_unasked() -> None:
    client = Client(Surroundings(), path=import_folders())
    client.begin()
    assert client._starting_process is not None
    process = client._starting_process._process
    client.close()
    assert process.returncode is not None


@pytest.mark.parametrize("is_begun", [False, True], ids=["asked", "begun"])
def test_what_cannot_begin_is_told_to_whoever_asks(tmp_path: Path, is_begun: bool) -> None:
    client = Client(Surroundings(command=(str(tmp_path / "python"),)))
    if is_begun:
        client.begin()
    with pytest.raises(TargetError, match="cannot be started: No such file or directory"):
        client.request({"do": "find", "modules": [], "distributions": []})


@pytest.mark.parametrize("surroundings", [
    Surroundings(command=("ssh", "there", "python"), is_here=False),
    Surroundings(command=("node", "host.mjs"), speaks=HostLanguage.PROTOCOL),
], ids=["elsewhere", "program"])
def test_only_an_interpreter_on_this_machine_begins_early(surroundings: Surroundings) -> None:
    client = Client(surroundings)
    client.begin()
    assert client._starting_process is None


def fill(stream: io.BytesIO, view: memoryview) -> int:
    got = stream.read(min(50, len(view)))
    assert got, "the frame ends too early"
    view[:len(got)] = got
    return len(got)


@pytest.mark.parametrize("most", [1, 7, 1000, 10**9])
def test_a_frame_arrives_whole_however_little_goes_at_once(most: int) -> None:
    arrays = [np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.zeros((0, 3), bool),
              np.arange(5, dtype=np.int64)[::2]]
    wire = bytearray()

    def write(buffers: list[Any]) -> int:
        some = b"".join(buffers)[:most]
        wire.extend(some)
        return len(some)

    send_frame(pack_frame({"do": "call"}, [Entries(each.dtype.name, each) for each in arrays]), write)
    header, found = receive_frame(Incoming(partial(fill, io.BytesIO(wire)), memoryview(bytearray(50))))
    assert header == {"do": "call"}
    assert [each.array.tolist() for each in found] == [each.tolist() for each in arrays]
