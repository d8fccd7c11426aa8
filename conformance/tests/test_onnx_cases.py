"""The reference and the bound against the published node cases of ONNX's Attention operator.

Covered: everything that is a mask, an additive bias, the causal flag, a scale, grouped heads, heads side by side (3-D).
Of the optional outputs only the weights are looked at (`qk_matmul_output_mode` 3); the raw, capped and biased logits of
modes 0 to 2 are no output of attention as attnspec knows it. See NOT_COVERED for the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import precision_of_grade
from attnspec.problems.problem import Array, Problem

attention = pytest.importorskip("onnx.backend.test.case.node.attention")

# What makes a case one of another operator's, and why it is left out.
NOT_COVERED = {
    "softcap": "tanh of the logits is a term that no keyword of attnspec hands over",
    "left_window_size": "a window of positions is no keyword yet; as a mask it would be made here, not there",
    "past_key": "a cache is no keyword yet, and its causal offset is the cache's",
    "nonpad_kv_seqlen": "the length of an external cache moves the causal diagonal batch by batch",
}
CONVENTIONS = {"causal_alignment": "top_left", "mask_with_causal": "both", "grouped_heads": "repeat"}


class Case:
    """One published node: attributes, inputs and outputs by name."""

    def __init__(
        self, node: Any, inputs: list[Array], outputs: list[Array], name: str,  # noqa: ANN401  (protobuf)
    ) -> None:
        self.name = name.removeprefix("test_attention_")
        self.attributes = {a.name: a.f if a.type == a.FLOAT else a.i for a in node.attribute}
        self.inputs = dict(zip([each for each in node.input if each], inputs, strict=True))
        self.outputs = dict(zip([each for each in node.output if each], outputs, strict=True))

    @property
    def uncovered(self) -> frozenset[str]:
        return frozenset(NOT_COVERED).intersection({**self.attributes, **self.inputs})

    def heads(self, name: str) -> Array:
        """(B,H,T,D), whether the heads are an axis or side by side."""
        array, H = self.inputs[name], self.attributes.get("q_num_heads" if name == "Q" else "kv_num_heads", 0)
        return array if array.ndim == 4 else apart(array, int(H))

    def problem(self) -> Problem:
        query, key, value = (self.heads(name) for name in "QKV")
        mask, bias = self.inputs.get("attn_mask"), None
        if mask is not None:
            mask = np.broadcast_to(mask, (*query.shape[:3], key.shape[2]))
            mask, bias = (mask, None) if mask.dtype == bool else (None, mask)
        causal, scale = bool(self.attributes.get("is_causal", 0)), self.attributes.get("scale")
        return Problem(DType(query.dtype.name), query, key, value, mask=mask, bias=bias, causal=causal, scale=scale)


def apart(array: Array, H: int) -> Array:
    """(B,T,H·D) -> (B,H,T,D)."""
    split: Array = array.reshape(*array.shape[:2], H, -1)
    return split.swapaxes(1, 2)


def published() -> list[Case]:
    """The cases as ONNX generates them, caught where it would write them to a file."""
    cases: list[Case] = []

    def catch(node: object, inputs: list[Array], outputs: list[Array], name: str, **_: object) -> None:
        cases.append(Case(node, inputs, outputs, name))

    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(attention, "expect", catch)
        np.random.seed(0)
        for name in dir(attention.Attention):
            if name.startswith("export"):
                getattr(attention.Attention, name)()
    return sorted(cases, key=lambda case: case.name)


CASES = published()
COVERED = [case for case in CASES if not case.uncovered]


def inside(seen: Array, truth: Array, allowance: Array, claimed: Array) -> bool:
    return bool((np.abs(seen.astype(np.float64) - truth) <= allowance)[claimed].all())


@pytest.mark.family(12)
@pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)
def test_the_published_answer_lies_inside_the_bound(case: Case) -> None:
    problem = case.problem()  # the reference operator keeps half precision throughout
    expected = expect(problem, precision_of_grade("G4", problem.dtype), conventions=CONVENTIONS)
    output = case.outputs["Y"]
    output = output if output.ndim == 4 else apart(output, problem.sizes.H)
    assert expected.claimed.any()
    assert inside(output, expected.output, expected.output_allowance, expected.claimed)
    assert (output.astype(np.float64)[expected.empty] == 0).all(), "ONNX gives a row that sees no key zeros"


@pytest.mark.parametrize("case", [case for case in COVERED if case.attributes.get("qk_matmul_output_mode") == 3],
                         ids=lambda case: case.name)
def test_the_published_weights_lie_inside_the_bound(case: Case) -> None:
    problem = case.problem()
    expected = expect(problem, precision_of_grade("G4", problem.dtype), conventions=CONVENTIONS)
    assert inside(case.outputs["qk_matmul_output"], expected.weights, expected.weights_allowance, expected.claimed)


def test_many_cases_are_covered_and_every_reason_to_leave_one_out_is_used() -> None:
    assert len(COVERED) > len(CASES) / 3
    assert set().union(*(case.uncovered for case in CASES)) == set(NOT_COVERED)
