"""What a probe finds out about inputs that do not match: refused, cut to what belongs together, or answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.staged import attention
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.questions.asker import Asker, NotAsked
from attnspec.questions.inputs import MISMATCH_QUESTIONS
from attnspec.subjects.registry import load_target
from helpers.liars import Liar, answers_to, everywhere, find_answer, liar_subject, sound, steps

NAMES = [question.name for question in MISMATCH_QUESTIONS]


def cut(call: HandedOver) -> Answer:
    """Attention of the part that all inputs have."""
    B, D = (min(call.query.shape[axis], call.key.shape[axis]) for axis in (0, 3))
    given = {name: array for name, array in (("mask", call.mask), ("bias", call.bias)) if array is not None}
    S = min(call.key.shape[2], call.value.shape[2], *(array.shape[3] for array in given.values()))
    return attention(call.but(query=call.query[:B, :, :, :D], key=call.key[:B, :, :S, :D], value=call.value[:B, :, :S],
                              **{name: array[..., :S] for name, array in given.items()}))


def beyond(call: HandedOver) -> Answer:
    """One more number in every row: an output of another shape."""
    return np.zeros((*call.query.shape[:3], call.value.shape[-1] + 1), np.float32)


PLANTED: dict[str, Liar] = {"refuses": sound, "leading": cut, "answers": everywhere(9.0)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", PLANTED)
def test_a_planted_liar_gets_its_answer(name: str, answer: str) -> None:
    assert find_answer(PLANTED[answer], name).answer == answer


def test_every_answer_is_planted() -> None:
    assert answers_to(MISMATCH_QUESTIONS) == {name: set(PLANTED) for name in NAMES}


def test_a_refusal_is_told_in_its_own_words() -> None:
    told = find_answer(sound, "mismatch.more_keys").detail
    assert told.startswith("ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0")


def test_an_output_of_another_shape_is_an_answer() -> None:
    answer = find_answer(beyond, "mismatch.more_values")
    assert answer.answer == "answers"
    assert answer.detail.startswith("The subject returned a ndarray of shape (1, 2, 4, 9)")


def test_attention_to_its_own_input_is_not_asked() -> None:
    subject = liar_subject(sound)
    limited = replace(subject.declaration, limits=Limits(self_attention_only=True))
    asked = steps(replace(subject, declaration=limited))
    assert [asked[name].ask_question() for name in NAMES] == [None] * len(NAMES)


def test_pages_have_no_batch_axis_to_be_longer() -> None:
    paged = load_target("numpy/paged")
    question = next(each for each in MISMATCH_QUESTIONS if each.name == "mismatch.batch")
    with pytest.raises(NotAsked, match="keys and values in pages have no batch axis"):
        question.ask(Asker(paged, DType.FLOAT32))
