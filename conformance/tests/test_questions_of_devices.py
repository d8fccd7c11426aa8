"""A question of a probe that only a device can answer: whether its products of float32 are in TF32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from attnspec.core.nouns import DType
from attnspec.core.surroundings import Surroundings
from attnspec.faults.subject import own_subject
from attnspec.questions.asker import FAILURES, Asker, NotAsked
from attnspec.questions.numbers import DEVICE_QUESTIONS
from attnspec.subjects.callee import Callee
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject

[PRODUCTS] = DEVICE_QUESTIONS
ANSWERS = {"float32": "sound/naive", "tf32": "fault/inputs_tf32", "bfloat16": "fault/inputs_bfloat16"}


@dataclass(frozen=True, slots=True)
class On:
    """A callee that says that it computes on this device."""

    callee: Callee
    device: str

    @property
    def place(self) -> Mapping[str, str]:
        return {"device": self.device}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the callee has)
        return getattr(self.callee, name)


def on(device: str, target: str = "sound/naive") -> Subject:
    subject = own_subject(target)
    return replace(subject, callee=On(subject.callee, device))


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_products_read_of_float32_is_found_out(answer: str) -> None:
    assert PRODUCTS.ask(Asker(on("cuda:0", ANSWERS[answer]), DType.FLOAT32)).answer == answer


def test_every_answer_about_products_is_planted() -> None:
    assert set(ANSWERS) == set(PRODUCTS.answers) - set(FAILURES)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", DType.FLOAT32), ("cuda:0", DType.FLOAT16), ("", DType.FLOAT32)])
def test_where_there_is_no_tf32_nobody_is_asked(device: str, dtype: DType) -> None:
    with pytest.raises(NotAsked, match=rf"TF32 is how GPUs may multiply float32; this is {dtype.value} on {device}"):
        PRODUCTS.ask(Asker(on(device), dtype))


ALLOWS = """
import torch

def attend(query, key, value):
    torch.backends.cuda.matmul.allow_tf32 = {allowed}
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)

attend.lift = "torch"
"""


@pytest.mark.parametrize(("allowed", "answer"), [(False, "float32"), (True, "tf32")])
def test_a_gpu_answers_as_its_switch_stands(tmp_path: Path, *, allowed: bool, answer: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("TF32 needs an NVIDIA GPU of compute capability 8.0 or later")
    (tmp_path / "mine.py").write_text(ALLOWS.format(allowed=allowed), encoding="utf-8")
    subject = load_target(f"{tmp_path}/mine.py:attend", Surroundings(device="cuda", deadline=60))
    assert PRODUCTS.ask(Asker(subject, DType.FLOAT32)).answer == answer
