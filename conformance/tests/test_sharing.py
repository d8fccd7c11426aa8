"""Judge and host on one machine share memory for arrays: what is judged is as safe there as what is sent."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType, Verdict
from attnspec.core.surroundings import Surroundings
from attnspec.host.frames import (
    PREFIX,
    ROOM_BYTES,
    SHARED_FLAG,
    BrokenFrame,
    Entries,
    Incoming,
    ReusedMemory,
    pack_frame,
    receive_frame,
)
from attnspec.host.serving import MAX_KEPT_RESULTS
from attnspec.hosting.launch import shared_memory
from attnspec.subjects.call import Call, SubjectAnswer, SubjectDied
from attnspec.subjects.callee import Hosted
from attnspec.subjects.registry import load_target

ON_LINUX = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has memory of a fixed size")
KEEPS = '''
import os

held = []

def doubles(query, key, value):
    return 2 * value

def keeps(query, key, value):
    """The sum of all values that it was ever given, which it holds on to."""
    held.append(value)
    return sum(held)

def changes(query, key, value):
    value[..., 0] = 7
    return 2 * key

def has_a_child_that_changes_its_own(query, key, value):
    if not os.fork():
        value[...] = 7
        os._exit(0)
    os.wait()
    return 2 * value

def cuts_the_memory_off(query, key, value):
    for name in os.listdir("/proc/self/fd"):
        try:
            if "memfd" in os.readlink("/proc/self/fd/" + name):
                os.ftruncate(int(name), 0)
        except PermissionError:
            return 2 * value
        except OSError:
            pass

def dies_of_seven(query, key, value):
    return os.abort() if (value == 7).any() else 2 * value
'''


def arrays(entries: int = 2, value: float = 1.0) -> Mapping[str, Any]:
    return {name: np.full((1, 1, 2, entries), value, np.float32) for name in ("query", "key", "value")}


def call(given: Mapping[str, Any]) -> Call:
    return Call(given, {}, DType.FLOAT32, (given["value"].shape,))


def callee(folder: Path, name: str, surroundings: Surroundings | None = None) -> Hosted:
    (folder / "mine.py").write_text(KEEPS, encoding="utf-8")
    found = load_target(f"{folder}/mine.py:{name}", surroundings or Surroundings(deadline=20)).callee
    assert isinstance(found, Hosted)
    return found


def asked(hosted: Hosted, value: float = 1.0, entries: int = 2) -> SubjectAnswer:
    return hosted.perform(call(arrays(entries, value)))


def frame(room: Any, count: int, length: int) -> Incoming:  # noqa: ANN401  (an array or None)
    header = json.dumps({"arrays": [{"dtype": "uint8", "shape": [count], "bytes": count}]}).encode()
    return Incoming(io.BytesIO(PREFIX.pack(len(header), length) + header).readinto, memoryview(bytearray(2**16)),
                    most=1000, room=room)


@ON_LINUX
def test_a_host_on_this_machine_says_that_it_shares(tmp_path: Path) -> None:
    assert callee(tmp_path, "doubles").client.about["shared"] is True


@pytest.mark.parametrize("surroundings", [
    Surroundings(command=(sys.executable,), is_here=False, deadline=20), Surroundings(deadline=20),
], ids=["elsewhere", "no such memory"])
def test_all_is_sent_where_nothing_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             surroundings: Surroundings) -> None:
    if surroundings.is_here:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    assert shared_memory(surroundings) == -1
    hosted = callee(tmp_path, "doubles", surroundings)
    assert hosted.client.about["shared"] is False
    assert (asked(hosted).output == 2).all()


def test_arrays_too_large_for_the_room_are_sent(tmp_path: Path) -> None:
    hosted = callee(tmp_path, "doubles")
    assert (asked(hosted, 3.0, ROOM_BYTES // 8 + 1).output == 6).all()
    assert (asked(hosted, 4.0).output == 8).all()


def test_an_array_that_is_held_is_not_written_over(tmp_path: Path) -> None:
    hosted = callee(tmp_path, "keeps")
    assert [asked(hosted, value).output[0, 0, 0, 0] for value in (1.0, 10.0, 100.0, 1000.0)] == [1, 11, 111, 1111]


def test_an_answer_is_not_written_over_by_the_next(tmp_path: Path) -> None:
    hosted = callee(tmp_path, "doubles")
    first = asked(hosted).output
    asked(hosted, 50.0)
    assert (first == 2).all()


@pytest.mark.parametrize("entries", [2, 2**15, ROOM_BYTES // 4])
def test_a_change_of_an_input_is_noticed(tmp_path: Path, entries: int) -> None:
    hosted = callee(tmp_path, "changes")
    given = arrays(entries)
    assert hosted.perform(call(given)).mutated == ("value",)
    assert (given["value"] == 1).all()


def test_a_change_is_noticed_in_an_array_with_gaps(tmp_path: Path) -> None:
    given = {**arrays(), "value": np.ones((1, 1, 2, 4), np.float32)[..., ::2]}
    assert callee(tmp_path, "changes").perform(call(given)).mutated == ("value",)


def test_what_a_child_does_to_its_copy_of_an_input_is_no_change(tmp_path: Path) -> None:
    answer = asked(callee(tmp_path, "has_a_child_that_changes_its_own"))
    assert answer.mutated == ()
    assert (answer.output == 2).all()


@ON_LINUX
def test_nobody_can_cut_shared_memory_off(tmp_path: Path) -> None:
    assert (asked(callee(tmp_path, "cuts_the_memory_off")).output == 2).all()


@ON_LINUX
def test_a_new_process_shares_new_memory(tmp_path: Path) -> None:
    hosted = callee(tmp_path, "dies_of_seven")
    with pytest.raises(SubjectDied) as died:
        asked(hosted, 7.0)
    assert died.value.verdict is Verdict.CRASHED
    assert (asked(hosted).output == 2).all()
    assert hosted.client.about["shared"] is True


@pytest.mark.parametrize(("room", "count", "length", "words"), [
    (None, 64, SHARED_FLAG | 64, "64 bytes in memory that is not shared"),
    (np.zeros(128, np.uint8), 192, SHARED_FLAG | 192, "192 bytes in memory that is not shared"),
    (np.zeros(2000, np.uint8), 64, SHARED_FLAG | 1920, "1920 bytes where 1000 can be meant"),
    (np.zeros(128, np.uint8), 128, SHARED_FLAG | 64, "buffer is too small"),
], ids=["nothing is shared", "beyond the room", "more than can be meant", "an array beyond the body"])
def test_a_body_that_cannot_lie_there_is_none(room: Any, count: int, length: int, words: str) -> None:  # noqa: ANN401  (see above)
    with pytest.raises(BrokenFrame, match=words):
        receive_frame(frame(room, count, length))


def test_what_is_shared_arrives_as_a_copy() -> None:
    room = np.zeros(128, np.uint8)
    pack_frame({}, [Entries("uint8", np.arange(10, dtype=np.uint8))], room)
    _, [entries] = receive_frame(frame(room, 10, SHARED_FLAG | 64))
    room[...] = 9
    assert entries.array.tolist() == list(range(10))


def test_memory_is_used_again_once_nobody_holds_it() -> None:
    again = ReusedMemory()
    first = again.reuse_buffer(100)
    there = first.__array_interface__["data"][0]
    part = first[:4].view(np.float32)
    del first
    assert again.reuse_buffer(100).__array_interface__["data"][0] != there
    del part
    assert again.reuse_buffer(100).__array_interface__["data"][0] == there


def test_what_lies_behind_memory_used_again_is_no_earlier_array() -> None:
    again = ReusedMemory()
    again.reuse_buffer(200)[...] = 1
    short = again.reuse_buffer(100)
    assert set(short.base[100:200]) == {0xFE}


def test_an_interpreter_that_counts_no_holders_gets_new_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "getrefcount")
    again = ReusedMemory()
    first = again.reuse_buffer(100)
    assert first.base is not again.reuse_buffer(100).base


def test_a_host_lets_go_of_results_beyond_those_that_it_keeps(tmp_path: Path) -> None:
    hosted = callee(tmp_path, "doubles")
    first = [asked(hosted), asked(hosted)]
    numbers = [hosted.client.recall(call, hosted.client.life, 1000) for call in (1, 2)]
    assert [len(found) for found in numbers] == [1, 1]
    for _ in range(MAX_KEPT_RESULTS - 1):
        asked(hosted)
    assert [len(hosted.client.recall(call, hosted.client.life, 1000)) for call in (1, 2)] == [0, 1]
    assert all(answer.is_kept() for answer in first)
