"""Whatever is in a subject's process can write an answer: one that is none is the subject's crash, not our defect."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from attnspec.core.nouns import DType, Verdict
from attnspec.core.surroundings import Surroundings
from attnspec.host.frames import PREFIX, BrokenFrame, Entries, Incoming, receive_frame
from attnspec.hosting.client import Client
from attnspec.subjects.call import Call, SubjectDied
from attnspec.subjects.callee import Hosted
from attnspec.subjects.registry import load_target

CALL = Call({name: np.ones((1, 1, 2, 2), np.float32) for name in ("query", "key", "value")}, {}, DType.FLOAT32,
            ((1, 1, 2, 2),))
RESULT = Entries("float32", np.zeros((1, 1, 2, 2), np.float32))
HONEST: Mapping[str, Any] = {"ended": "answered", "call": 1, "results": 1, "has_gradients": False, "aliases": [],
                             "said": "", "told": {}, "changed": []}
RAISED = {"summary": "E", "traceback": "", "statement": "", "classes": []}
UNUSABLE = {"named": "None", "name": "the output", "at": 0, "reading": ""}


@dataclass
class Forger:
    """A client that is told whatever somebody wrote."""

    told: Mapping[str, Any]
    found: Sequence[Entries]
    surroundings: Surroundings = field(default_factory=Surroundings)
    life: int = 1

    def request(self, *_: object, **__: object) -> tuple[Mapping[str, Any], Sequence[Entries]]:
        return self.told, self.found

    def recall(self, *_: object) -> list[Entries]:
        return []

    def give_up(self, *_: object) -> None:
        self.life = 0


def incoming(wire: bytes) -> Incoming:
    return Incoming(io.BytesIO(wire).readinto, memoryview(bytearray(2**16)))


def asked(told: Mapping[str, Any], found: Sequence[Entries]) -> object:
    return Hosted(cast("Client", Forger(told, found)), 0).perform(CALL)


def test_an_honest_answer_is_one() -> None:
    asked(HONEST, [RESULT])


@pytest.mark.parametrize("forged", [
    {}, {"ended": "held"}, {"ended": ["answered"]}, {"results": None}, {"results": -1}, {"results": 0},
    {"call": {}}, {"call": None}, {"aliases": 3}, {"aliases": [7]}, {"aliases": [None]}, {"changed": [7]},
    {"changed": "all"}, {"told": None}, {"told": 7, "ended": "raised", "results": 0}, {"has_gradients": True},
    *({"ended": "raised", "results": 0, "told": {**RAISED, name: odd}} for name in RAISED for odd in (None, 7)),
    *({"ended": "unusable", "results": 0, "told": {**UNUSABLE, name: odd}} for name in UNUSABLE for odd in (None, 9.5)),
    {"ended": "unusable", "results": 0, "told": {**UNUSABLE, "at": 99}},
], ids=repr)
def test_words_that_tell_no_end_are_a_crash(forged: Mapping[str, Any]) -> None:
    told = {**HONEST, **forged} if forged else {}
    with pytest.raises(SubjectDied, match="what came back is not an answer") as died:
        asked(told, [] if told.get("results") == 0 else [RESULT])
    assert died.value.verdict is Verdict.CRASHED


def test_a_host_whose_answer_is_none_is_given_up() -> None:
    forger = Forger({}, [RESULT])
    with pytest.raises(SubjectDied):
        Hosted(cast("Client", forger), 0).perform(CALL)
    assert forger.life == 0


@pytest.mark.parametrize("found", [
    [], [RESULT, RESULT], [Entries("float32", np.zeros((2, 2), np.float32))],
    [Entries("int64", np.zeros((1, 1, 2, 2), np.int64))], [Entries("float32", np.zeros((1, 1, 2, 2, 1), np.float32))],
], ids=lambda found: f"{len(found)} arrays")
def test_arrays_that_are_not_due_are_a_crash(found: Sequence[Entries]) -> None:
    with pytest.raises(SubjectDied, match="what came back is not an answer"):
        asked(HONEST, found)


@pytest.mark.parametrize("header", [
    "[]", "3", "null", '{"arrays": 3}', '{"arrays": [{"dtype": "object", "shape": [1], "bytes": 8}]}',
    '{"arrays": [{"dtype": "U8", "shape": [1], "bytes": 8}]}',
    '{"arrays": [{"dtype": ["f4"], "shape": [1], "bytes": 8}]}',
    '{"arrays": [{"dtype": "float32", "shape": [-1], "bytes": 8}]}', '{"arrays": [{"dtype": "float32"}]}',
    '{"arrays": [{"dtype": "float32", "shape": [2], "bytes": 8, "strides": [1000]}]}',
    '{"arrays": [{"dtype": "float32", "shape": [2], "bytes": 8, "strides": [4], "offset": -64}]}',
    "[" * 100_000, "\ud800",
], ids=lambda text: text[:60])
def test_a_frame_that_is_none_is_told_as_such(header: str) -> None:
    text = header.encode(errors="surrogatepass")
    with pytest.raises(BrokenFrame):
        receive_frame(incoming(PREFIX.pack(len(text), 64) + text + bytes(64)))


def test_the_frame_that_is_forged_above_can_be_told_rightly() -> None:
    header = json.dumps({"arrays": [{"dtype": "float32", "shape": [2], "bytes": 8}]}).encode()
    _, [entries] = receive_frame(incoming(PREFIX.pack(len(header), 64) + header + bytes(64)))
    assert entries.array.tolist() == [0, 0]


OUT_OF_TURN = """
import json, os, struct

def attend(query, key, value):
    text = json.dumps({"number": 1}).encode()
    os.write(4, struct.pack("<IQ", len(text), 0) + text)
    return value
"""


def test_an_answer_to_another_request_is_a_crash(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OUT_OF_TURN, encoding="utf-8")
    subject = load_target(f"{tmp_path}/mine.py:attend", Surroundings())
    with pytest.raises(SubjectDied, match=r"it answers request 1, but request \d+ was sent"):
        subject.callee.perform(CALL)
