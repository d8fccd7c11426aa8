"""Gradients by definition, and the bound of what rounding adds: sound backward passes keep it, and errors break it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import DType
from attnspec.faults.backward import BackwardMethod, as_backward
from attnspec.faults.subject import SOUND_BACKWARD
from attnspec.numerics.bound import weight_error
from attnspec.numerics.expectation import expect
from attnspec.numerics.gradient_sums import Gradient
from attnspec.numerics.gradients import Pass, expect_gradients, output_product_sizes
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.reference import compute_truth, cut_blocks, differentiate
from attnspec.numerics.roundings import assumed_backward, backward_roundings, declared_backward
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, numpy_dtype

HALVES = (DType.FLOAT16, DType.BFLOAT16)
SHAPES = ("B2,H4,Hkv2,T5,S7,D8,Dv3", "B1,H2,Hkv1,T17,S33,D4,Dv8", "B1,H2,Hkv2,T3,S1,D4,Dv8",
          "B1,H2,Hkv1,T21,S9,D16,Dv1")
FAMILIES = ("normal", "log_normal+huge_logits", "offset+tiny_query_key", "constant", "one_hot_values+cancellation",
            "mixed_magnitudes", "tiny_values+integers")
KEYWORDS = ("", "mask", "bias", "causal", "softcap", "window", "sinks", "scale", "key_lengths query_lengths",
            "alibi_slopes", "sinks query_lengths causal", "query_segments key_segments", "bias mask softcap")


def problem(with_: str = "", family: str = "normal", dtype: DType = DType.FLOAT64, *, seed: int = 3,
            shape: str = SHAPES[0], more: str = "") -> Problem:
    features = "+".join(sorted(with_.split()))
    mask = "with_empty_rows" if "mask" in with_ else "none"
    text = (f"{shape};mask={mask};families={family};{f'with={features};' if features else ''}"
            f"{'softcap=0.5;' if 'softcap' in with_ else ''}{more}seed={seed}")
    return make_problem(Recipe.parse(text), dtype)


def grad_of(made: Problem, seed: int = 0, kind: int = 0) -> Array:
    n, rng = made.sizes, np.random.default_rng(seed)
    sizes = (1, 10.0 ** rng.uniform(-2, 2, (n.B, n.H, n.T, 1)), 1e-3, 100)[kind % 4]
    return (rng.standard_normal((n.B, n.H, n.T, n.Dv)) * sizes).astype(numpy_dtype(made.dtype))


def expected_of(made: Problem, grad: Array, name: str = "backward_eager") -> dict[str, Gradient]:
    sound = SOUND_BACKWARD[name]
    precision = declared_precision({"grade": sound.grade} if made.dtype in HALVES else None, made.dtype)
    return dict(expect_gradients(made, grad, precision, declared_backward(sound.declared, precision),
                                 conventions={}))


def ratio(seen: Array, expected: Gradient) -> float:
    """The worst error over what is allowed."""
    with np.errstate(all="ignore"):
        gap = np.abs(seen.astype(expected.truth.dtype) - expected.truth).astype(float)
        over = np.where(gap == 0, 0, gap / expected.allowance)
    return float(np.where(expected.claimed, np.where(np.isnan(over), np.inf, over), 0).max(initial=0))


def answered(made: Problem, grad: Array, name: str = "backward_eager") -> dict[str, Array]:
    found = SOUND_BACKWARD[name].backward(made.query, made.key, made.value, grad, **made.given)
    assert isinstance(found, dict)
    return found


def summed(made: Problem, grad: Array) -> np.longdouble:
    """The sum of the output times grad, by the forward definition."""
    found = expect(made, declared_precision(None, made.dtype), conventions={}, parts=frozenset({"output"}))
    total: np.longdouble = (found.output * grad).sum(dtype=np.longdouble)
    return total


@pytest.mark.parametrize("with_", [*KEYWORDS, "past_key past_value causal", "bias broadcast", "scale sinks bias"])
def test_each_gradient_is_the_slope_of_the_definition(with_: str) -> None:
    made = problem(with_.replace("broadcast", "").strip(), shape=SHAPES[0] if "past" not in with_ else SHAPES[1])
    if "broadcast" in with_:
        assert made.bias is not None
        made = made.but(bias=made.bias[:, :1, :, :1].copy())
    grad, rng, step = grad_of(made), np.random.default_rng(5), 2.0**-14
    for name, gradient in expected_of(made, grad).items():
        entries = getattr(made, name)
        direction = rng.standard_normal(entries.shape)
        ends = [summed(made.but(**{name: entries + sign * step * direction}), grad) for sign in (-1, 1)]
        slope = (ends[1] - ends[0]) / (2 * step)
        np.testing.assert_allclose(float((gradient.truth * direction).sum()), float(slope), rtol=1e-6, atol=1e-7)


def cases(dtype: DType) -> Iterator[tuple[Problem, Array]]:
    for index, (family, with_) in enumerate(product(FAMILIES, KEYWORDS)):
        if index % 3 == 0:
            made = problem(with_, family, dtype, seed=index, shape=SHAPES[index % 4])
            yield made, grad_of(made, index, index)


@pytest.mark.family(1, each="dtype")
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("name", SOUND_BACKWARD)
def test_sound_backward_passes_stay_within_the_bound(name: str, dtype: DType) -> None:
    claimed = []
    for made, grad in cases(dtype):
        expected = expected_of(made, grad, name)
        found = answered(made, grad, name)
        assert found.keys() == expected.keys()
        for of, gradient in expected.items():
            assert ratio(found[of], gradient) <= 1, (of, str(made))
            claimed.append(gradient.claimed.mean())
    assert np.mean(claimed) > 0.9


@pytest.mark.family(4)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [name for name, each in SOUND_BACKWARD.items() if each.grade != "G0"])
def test_what_is_stored_shows_where_it_is_not_declared(name: str, dtype: DType) -> None:
    worst = [max(ratio(found, expected_of(made, grad)[of]) for of, found in answered(made, grad, name).items())
             for made, grad in cases(dtype)]
    assert max(worst) > 2


@pytest.mark.family(1, each="spot")
@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("spot", ["products", "delta", "query_dots", "value_weights"])
def test_the_bound_sees_a_stage_that_is_a_little_off(spot: str, dtype: DType) -> None:
    made = problem("causal", dtype=dtype)
    grad = grad_of(made)
    off = 1 + {DType.FLOAT64: 1e-13, DType.FLOAT32: 1e-4}.get(dtype, 0.06)
    edits = {spot: lambda array, _: array * array.dtype.type(off)}
    found = as_backward(BackwardMethod(), edits)(made.query, made.key, made.value, grad, **made.given)  # type: ignore[arg-type]
    assert max(ratio(found[of], gradient) for of, gradient in expected_of(made, grad).items()) > 1


def test_hidden_keys_have_gradients_of_exactly_zero() -> None:
    made = problem("key_lengths", more="key_lengths=one_short;")
    expected = expected_of(made, grad_of(made))
    for name in ("key", "value"):
        assert not expected[name].truth[:, :, -1].any()
        assert not expected[name].allowance[:, :, -1].any()


def test_a_row_that_sees_nothing_has_no_gradient() -> None:
    made = problem("mask")
    assert made.mask is not None
    empty = ~made.mask.any(axis=-1)
    query = expected_of(made, grad_of(made))["query"]
    assert empty.any()
    assert not query.truth[empty].any()
    assert not query.allowance[empty].any()


def test_unsettled_rows_take_the_claim_from_keys_of_their_heads() -> None:
    made = problem("mask")
    assert made.mask is not None
    precision = declared_precision(None, made.dtype)
    found = expect_gradients(made, grad_of(made), precision, assumed_backward(precision), conventions={},
                             settled=np.zeros((made.sizes.B, made.sizes.T), bool))
    empty = ~made.mask.any(axis=-1)
    has_none = empty.any(axis=-1).reshape(2, 2, 2).any(axis=-1)
    np.testing.assert_array_equal(found["query"].claimed[..., 0], ~empty)
    np.testing.assert_array_equal(found["value"].claimed[:, :, 0, 0], ~has_none)


def test_what_float16_cannot_hold_is_not_claimed() -> None:
    made = problem(dtype=DType.FLOAT16)
    expected = expected_of(made, np.full_like(grad_of(made), 60000), "backward_stored")
    assert not expected["value"].claimed.all()
    assert all(gradient.claimed.all() for gradient in expected_of(made, grad_of(made), "backward_stored").values())


def test_products_that_overflow_at_a_hidden_key_are_not_claimed() -> None:
    made = problem("key_lengths", dtype=DType.FLOAT16, more="key_lengths=one_short;")
    large = made.value.copy()
    large[:, :, -1] = 60000
    grad = np.full_like(grad_of(made), 2)
    assert not expected_of(made.but(value=large), grad, "backward_stored")["query"].claimed.any()
    assert expected_of(made.but(value=large), grad)["query"].claimed.all()


def test_gradients_do_not_depend_on_how_a_problem_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    made = problem("mask bias softcap", shape="B2,H4,Hkv2,T9,S6,D4,Dv4")
    grad = grad_of(made)
    whole = expected_of(made, grad)
    monkeypatch.setattr("attnspec.numerics.reference.LOGITS_AT_ONCE", 8)
    for name, gradient in expected_of(made, grad).items():
        cut, at_once = (each.truth.astype(float) for each in (gradient, whole[name]))
        np.testing.assert_allclose(cut, at_once, rtol=1e-13, atol=1e-17)
        np.testing.assert_allclose(gradient.allowance, whole[name].allowance, rtol=1e-12)
        np.testing.assert_array_equal(gradient.claimed, whole[name].claimed)


def test_tiled_heads_add_up_where_they_belong() -> None:
    made = problem()
    grad = grad_of(made)
    precision = declared_precision(None, made.dtype)
    found = expect_gradients(made, grad, precision, assumed_backward(precision), conventions={"grouped_heads": "tile"})
    order = [0, 2, 1, 3]  # heads 0 and 2 share the first
    other = expected_of(made.but(query=made.query[:, order]), grad[:, order])
    np.testing.assert_allclose(found["key"].truth.astype(float), other["key"].truth.astype(float), rtol=1e-12)


@pytest.mark.parametrize(("declared", "says"), [
    ({"stored": 1}, "'stored' is not a known word of a backward precision class"),
    ({"logits": -1}, "'logits' in a backward precision class must be a whole number from 0 to 64, not -1"),
    ({"partial": True}, "'partial' in a backward precision class must be a whole number from 0 to 1073741824"),
    ({"is_normalised": 0}, "'is_normalised' in a backward precision class must be true or false, not 0"),
    ({"partial": 32}, "this backward precision class for bfloat16 is looser than the assumed one (partial); give a"),
    ({"is_normalised": False, "kept": 1}, "looser than the assumed one (kept, is_normalised); give a reason"),
])
def test_a_backward_class_that_makes_no_sense_is_told(declared: dict[str, object], says: str) -> None:
    precision = declared_precision({"grade": "G1"}, DType.BFLOAT16)
    with pytest.raises(ManifestError) as raised:
        declared_backward(declared, precision)
    assert says in str(raised.value)


def test_a_tighter_backward_class_needs_no_reason() -> None:
    precision = declared_precision({"grade": "G3"}, DType.BFLOAT16)
    assert str(declared_backward({"logits": 0, "kept": 0}, precision)) == "logits 0, results 2"


def block_of(made: Problem, grad: Array) -> Pass:
    """The whole problem on its way back, in one block."""
    precision = declared_precision(None, made.dtype)
    [block] = cut_blocks(made, {})
    truth = compute_truth(block.operands, np.float64)
    b = backward_roundings(precision, assumed_backward(precision))
    return Pass(block.operands, truth, differentiate(block.operands, truth, grad), b,
                weight_error(block.operands, truth, b.forward), block.operands.visible_array())


def test_weights_that_err_the_worst_way_stay_within_the_bound() -> None:
    made = problem("bias", dtype=DType.FLOAT32, shape="B1,H1,Hkv1,T1,S3,D8,Dv1")
    value = np.array([1, -1, 0], np.float32).reshape(1, 1, 3, 1)  # of the third, dP is delta: only delta's error shows
    made = made.but(query=np.full_like(made.query, 10), key=np.full_like(made.key, 10), value=value,
                    bias=np.zeros_like(made.bias))
    grad = np.ones((1, 1, 1, 1), np.float32)
    block = block_of(made, grad)
    grown = block.truth.weights * np.exp(np.sign(block.differentials.centred_products) * block.errors.error)
    weights = grown / grown.sum(axis=-1, keepdims=True)
    delta = (weights * block.differentials.products).sum(axis=-1, keepdims=True)
    found = ratio(weights * (block.differentials.products - delta), expected_of(made, grad)["bias"])
    assert 0.5 < found <= 1


def test_products_that_err_the_worst_way_stay_within_the_bound() -> None:
    made = problem("bias", "normal", DType.FLOAT32, shape="B1,H2,Hkv2,T5,S2,D4,Dv96")
    grad = grad_of(made)
    block = block_of(made, grad)
    off = 96 * 2.0**-24 * output_product_sizes(block) * np.array([1, -1])
    products = block.differentials.products + off
    delta = (block.differentials.weights * products).sum(axis=-1, keepdims=True)
    found = ratio(block.differentials.weights * (products - delta), expected_of(made, grad)["bias"])
    assert 0.3 < found <= 1


def test_a_sinks_gradient_is_held_to_float32_beside_half_precision() -> None:
    made = problem("sinks", dtype=DType.BFLOAT16)
    grad = grad_of(made)
    expected, found = expected_of(made, grad)["sinks"], answered(made, grad)["sinks"]
    assert ratio(found, expected) <= 1 < ratio(found * np.float32(1.0005), expected)


def test_a_coarser_softmax_holds_and_loses_backwards_what_its_format_does() -> None:
    """JAX's softmax is computed in float32, also beside float64."""
    single, words = np.finfo(np.float32), {"softmax": "float32", "reason": "a test"}
    coarser = declared_precision(words, DType.FLOAT64)
    numbers = backward_roundings(coarser, assumed_backward(coarser))
    assert (numbers.largest_inside, numbers.lost_inside) == (float(single.max), float(single.smallest_subnormal) / 2)
    made = make_problem(Recipe.parse("B1,H1,Hkv1,T1,S2,D2,Dv2;mask=none;families=normal;with=grad_output;"
                                     "grad_output=normal;seed=0"), DType.FLOAT64)
    grad = made.grad_output
    assert grad is not None
    made = made.but(value=made.value * 1e100)
    for precision, is_claimed in ((coarser, False), (declared_precision(None, DType.FLOAT64), True)):
        found = expect_gradients(made, grad, precision, assumed_backward(precision), conventions={})
        assert found["query"].claimed.any() == is_claimed
