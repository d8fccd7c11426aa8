"""A wrong backward pass is told by name where a fault's gives the same gradients, and else that it is the one wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.diagnosis.locate import BACKWARD_IS_WRONG
from attnspec.engine.subject_run import SubjectRun
from attnspec.faults.backward import as_backward
from attnspec.faults.subject import fault_subject
from attnspec.problems.problem import Array
from attnspec.record.outcome import Evidence
from attnspec.spec.load import load_spec
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject
from attnspec.trials.compile import compile_spec

CHECK = compile_spec(load_spec())["gradients.of_key"]
CASE = "B2,H2,Hkv2,T3,S4,D2,Dv3;mask=none;families=normal;with=grad_output;grad_output=normal;seed=5"


def evidence_of_failure(subject: Subject) -> Evidence:
    """What is said of the case."""
    found = SubjectRun(subject, Plan((subject.id,)), lambda _: None).replay(CHECK, DType.FLOAT32, CASE)
    assert found.evidence
    return found.evidence


@pytest.mark.family(1)
@pytest.mark.parametrize("fault", ["grad_products_of_first_head", "grad_key_channels_reversed"])
def test_a_fault_of_the_backward_pass_is_named(fault: str) -> None:
    named = evidence_of_failure(replace(fault_subject(f"fault/{fault}"), id="mine"))
    assert named.like[0].fault == fault
    assert named.like[0].agreed == named.like[0].tried


@pytest.mark.nightly
def test_a_backward_pass_that_no_fault_is_like_is_said_to_be_wrong() -> None:
    subject = fault_subject("fault/grad_products_of_first_head")
    sound = as_backward()

    def shifted(*inputs: Array, **keywords: Any) -> dict[str, Array]:  # noqa: ANN401  (keywords of any type)
        """Every gradient of the keys, (B,Hkv,S,D), with a constant added that no fault adds."""
        gradients = dict(sound(*inputs, **keywords))
        return {**gradients, "key": gradients["key"] + np.float32(0.37)}

    assert isinstance(subject.callee, InProcess)
    mine = replace(subject, id="mine", callee=InProcess(subject.callee.function, backward=shifted))
    assert evidence_of_failure(mine).like == ()
    assert evidence_of_failure(mine).located == BACKWARD_IS_WRONG
