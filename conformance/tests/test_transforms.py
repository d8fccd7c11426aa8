"""Every transform does what it says: shapes, contents, and no claim where it would not be exact."""

from __future__ import annotations

import numpy as np
import pytest
from attnspec.aspects.scale.words import with_scale
from attnspec.core.nouns import DType
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.problems.make import make_layer
from attnspec.problems.problem import Array, LayerProblem, Problem, Recipe, Sizes, numpy_dtype
from attnspec.vocabulary.observables import as_one
from attnspec.vocabulary.scene import NoClaim, OutsideLimits, Posed
from attnspec.vocabulary.signature import Drawn
from attnspec.vocabulary.transforms import axes, contents

B, H, T, S, D, DV = 2, 4, 3, 5, 4, 2
AXES = ("B", "H", "T", "S")


def posed(dtype: DType = DType.FLOAT32, *, Hkv: int = H, T: int = T, S: int = S, **changes: object) -> Posed[Problem]:
    """Every entry another whole number, so that what moves can be told; small enough for half dtypes to be exact."""
    number = numpy_dtype(dtype)

    def counted(*shape: int) -> Array:
        return (np.arange(np.prod(shape)).reshape(shape) % 251 - 125).astype(number)

    random = np.random.RandomState(1)
    problem = Problem(dtype, counted(B, H, T, D), counted(B, Hkv, S, D), counted(B, Hkv, S, DV),
                      mask=random.rand(B, H, T, S) < 0.5, bias=random.randint(-4, 4, (B, H, T, S)).astype(number))
    return Posed((problem.but(**changes),), conventions=RECOMMENDED)


def logits(problem: Problem) -> Array:
    """(B,H,T,S) less what mask and bias do: enough to tell whether entries still belong together."""
    scores: Array = problem.query.astype(float) @ problem.key.astype(float).swapaxes(-1, -2)
    biased: Array = scores + (0 if problem.bias is None else problem.bias.astype(float))
    return biased if problem.mask is None else np.where(problem.mask, biased, -np.inf)


def read_back(moved: Posed[Problem], arrays: list[Array], axes: tuple[str, ...]) -> Array:
    return as_one(arrays, moved, axes)


@pytest.mark.parametrize("transform", [axes.permute_keys, axes.permute_queries, axes.permute_batch,
                                       axes.permute_heads])
@pytest.mark.parametrize("seed", range(4))
def test_a_reordered_problem_read_back_is_the_old_one(transform: type, seed: int) -> None:
    before, after = posed(), transform(posed(), by=Drawn(seed))
    np.testing.assert_array_equal(read_back(after, [logits(after.one)], AXES), logits(before.one))
    assert after.one.sizes == before.one.sizes


@pytest.mark.parametrize(("transform", "name"), [
    (axes.permute_keys, "key"), (axes.permute_queries, "query"), (axes.permute_batch, "value"),
    (axes.permute_heads, "value")])
def test_some_seed_reorders(transform: type, name: str) -> None:
    before = getattr(posed().one, name)
    assert any((getattr(transform(posed(), by=Drawn(seed)).one, name) != before).any() for seed in range(4))


def test_reorderings_are_undone_last_first() -> None:
    after = axes.permute_heads(axes.permute_batch(axes.permute_keys(posed(), by=Drawn(1)), by=Drawn(2)), by=Drawn(3))
    np.testing.assert_array_equal(read_back(after, [logits(after.one)], AXES), logits(posed().one))


@pytest.mark.parametrize(("along", "pieces"), [("batch", B), ("heads", H), ("queries", T)])
def test_the_parts_of_a_problem_joined_are_the_problem(along: str, pieces: int) -> None:
    after = axes.split(posed(), along=along)  # type: ignore[arg-type]  # one of its choices
    assert len(after.parts) == pieces
    np.testing.assert_array_equal(read_back(after, [logits(part) for part in after.parts], AXES), logits(posed().one))


def test_grouped_heads_are_neither_reordered_nor_taken_apart() -> None:
    with pytest.raises(NoClaim, match="grouped"):
        axes.permute_heads(posed(Hkv=2), by=Drawn(1))
    with pytest.raises(NoClaim, match="grouped"):
        axes.split(posed(Hkv=2), along="heads")


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("by", [-2.0, 0.5, 4.0, -1.0])
def test_a_product_is_the_exact_one_in_the_dtype(dtype: DType, by: float) -> None:
    before, after = posed(dtype).one, contents.multiply(posed(dtype), array="query", by=by).one
    np.testing.assert_array_equal(after.query.astype(float), before.query.astype(float) * by)
    assert after.query.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(after.key, before.key)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("entry", ["smallest", "largest"])
def test_a_product_that_leaves_the_range_makes_no_claim(dtype: DType, entry: str) -> None:
    number = numpy_dtype(dtype)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[number.itemsize]
    smallest = np.array(1, bits).view(number)
    top = (np.array(np.inf, number).view(bits) - bits(1)).astype(bits).view(number)
    extreme, by = (smallest, 0.5) if entry == "smallest" else (top, 2.0)
    with pytest.raises(NoClaim, match="not exact"):
        contents.multiply(posed(dtype, key=np.full((B, H, S, D), extreme)), array="key", by=by)


def test_a_product_by_three_in_float64_makes_no_claim() -> None:
    thirds = np.full((B, H, S, DV), 1 / 3)
    with pytest.raises(NoClaim):
        contents.multiply(posed(DType.FLOAT64, value=thirds), array="value", by=3.0)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("by", [-4, 3])
def test_keys_and_biases_are_shifted_exactly(dtype: DType, by: int) -> None:
    before = posed(dtype).one
    after = contents.shift_bias(contents.shift_keys(posed(dtype), by=Drawn(by)), by=Drawn(by)).one
    assert before.bias is not None
    assert after.bias is not None
    np.testing.assert_array_equal(after.key.astype(float), before.key.astype(float) + by)
    np.testing.assert_array_equal(after.bias.astype(float), before.bias.astype(float) + by)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("entry", [0.1, 1e-7, 3e4])
def test_a_shift_that_rounds_makes_no_claim(dtype: DType, entry: float) -> None:
    if dtype is DType.FLOAT64 and entry == 3e4:
        entry = 1e17
    elif dtype is DType.FLOAT32 and entry == 3e4:
        entry = 1e30  # swallowed by float64 as well
    key = np.full((B, H, S, D), entry, numpy_dtype(dtype))
    with pytest.raises(NoClaim, match="not exact"):
        contents.shift_keys(posed(dtype, key=key), by=Drawn(3))


def test_a_bias_that_hides_still_hides_after_a_shift() -> None:
    bias = np.zeros((B, H, T, S), np.float32)
    bias[..., 1] = -np.inf
    after = contents.shift_bias(posed(bias=bias), by=Drawn(2)).one.bias
    np.testing.assert_array_equal(after, np.where(np.isneginf(bias), -np.inf, 2))


def test_without_a_bias_there_is_nothing_to_shift() -> None:
    with pytest.raises(NoClaim, match="there is no bias"):
        contents.shift_bias(posed(bias=None), by=Drawn(1))


def test_an_array_is_filled_with_one_number() -> None:
    after = contents.fill(posed(), array="value", number=1).one
    assert (after.value == 1).all()
    assert after.value.dtype == np.float32


def test_even_and_odd_values_add_up_to_all() -> None:
    even, odd = (contents.keep_values(posed(), of=of).one.value for of in ("even_keys", "odd_keys"))
    np.testing.assert_array_equal(even + odd, posed().one.value)
    assert (even[:, :, 1::2] == 0).all()
    assert (odd[:, :, ::2] == 0).all()


def test_other_content_has_the_same_entries_elsewhere() -> None:
    before, after = posed().one, contents.other_content(posed(), by=Drawn(5), arrays=("query", "key")).one
    np.testing.assert_array_equal(np.sort(after.query, axis=None), np.sort(before.query, axis=None))
    assert (after.key != before.key).any()
    np.testing.assert_array_equal(after.value, before.value)


@pytest.mark.parametrize(("content", "expected"), [("large", 256.0), ("inf", np.inf), ("nan", np.nan)])
def test_only_what_no_query_sees_is_replaced(content: str, expected: float) -> None:
    mask = np.ones((B, H, T, S), bool)
    mask[0, 1, :, 3] = False
    mask[1, 2, 0, 2] = False  # other queries see this one
    problem = posed(mask=mask)
    after = contents.replace_hidden(problem, arrays=("key", "value"), content=content).one  # type: ignore[arg-type]  # a choice
    hidden = np.zeros((B, H, S), bool)
    hidden[0, 1, 3] = True
    np.testing.assert_array_equal(np.abs(after.key[hidden]), expected)
    np.testing.assert_array_equal(np.abs(after.value[hidden]), expected)
    np.testing.assert_array_equal(after.key[~hidden], problem.one.key[~hidden])
    np.testing.assert_array_equal(after.value[~hidden], problem.one.value[~hidden])


def test_where_nothing_is_hidden_there_is_nothing_to_replace() -> None:
    with pytest.raises(NoClaim, match="no key is masked for every query"):
        contents.replace_hidden(posed(mask=None), arrays=("key",), content="nan")
    with pytest.raises(NoClaim, match="grouped"):
        contents.replace_hidden(posed(Hkv=2), arrays=("key",), content="nan")


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("cut", range(S - 1))
def test_every_entry_after_the_cut_is_another_finite_number(dtype: DType, cut: int) -> None:
    before = posed(dtype, T=S)
    after = contents.replace_after(before, arrays=("key", "value"), cut=Drawn(cut)).one
    for name in ("key", "value"):
        old, new = getattr(before.one, name), getattr(after, name)
        np.testing.assert_array_equal(new[:, :, :cut + 1], old[:, :, :cut + 1])
        assert (new[:, :, cut + 1:] != old[:, :, cut + 1:]).all()
        assert np.isfinite(new.astype(float)).all()
        assert new.dtype == old.dtype


def test_shared_heads_are_all_the_first() -> None:
    after = contents.share_heads(posed(Hkv=2)).one
    for array in (after.query, after.key, after.value):
        assert (array == array[:, :1]).all()
        assert array.flags.c_contiguous


def test_hidden_keys_are_those_from_the_drawn_one_on() -> None:
    after = contents.hide_keys(posed(mask=None), kept=Drawn(2)).one.mask
    np.testing.assert_array_equal(after, np.broadcast_to(np.arange(S) < 2, (B, H, T, S)))
    kept = posed().one.mask
    masked = contents.hide_keys(posed(), kept=Drawn(2)).one.mask
    assert kept is not None
    assert masked is not None
    np.testing.assert_array_equal(masked[..., :2], kept[..., :2])
    assert not masked[..., 2:].any()


def test_masks_and_biases_that_do_nothing() -> None:
    shown, zeros = contents.show_all(posed()).one.mask, contents.zero_bias(posed(DType.BFLOAT16)).one.bias
    assert shown is not None
    assert zeros is not None
    assert shown.all()
    assert shown.shape == zeros.shape == (B, H, T, S)
    assert not zeros.any()
    assert zeros.dtype == numpy_dtype(DType.BFLOAT16)
    assert contents.drop_mask(posed()).one.mask is None


@pytest.mark.parametrize("over", ["batch", "heads", "queries"])
def test_a_broadcast_mask_is_the_shared_one_with_an_axis_of_length_one(over: str) -> None:
    full = contents.share_mask(posed(), over=over).one.mask  # type: ignore[arg-type]  # one of its choices
    short = contents.broadcast_mask(posed(), over=over).one.mask  # type: ignore[arg-type]  # one of its choices
    assert full is not None
    assert short is not None
    assert full.shape == (B, H, T, S)
    assert short.shape == {"batch": (1, H, T, S), "heads": (B, 1, T, S), "queries": (B, H, 1, S)}[over]
    np.testing.assert_array_equal(full, np.broadcast_to(short, full.shape))


@pytest.mark.parametrize("transform", [contents.mask_as_bias, lambda p: contents.share_mask(p, over="batch")])
def test_without_a_mask_there_is_nothing_to_turn(transform: type) -> None:
    with pytest.raises(NoClaim, match="there is no mask"):
        transform(posed(mask=None))


@pytest.mark.parametrize("bias", [None, "kept"])
def test_a_mask_becomes_a_bias_that_is_infinitely_low_where_it_hides(bias: str | None) -> None:
    before = posed() if bias else posed(bias=None)
    after = contents.mask_as_bias(before).one
    old = np.zeros((B, H, T, S)) if before.one.bias is None else before.one.bias
    assert after.mask is None
    np.testing.assert_array_equal(after.bias, np.where(before.one.mask, old, -np.inf))  # type: ignore[arg-type]  # both are there


@pytest.mark.parametrize(("convention", "expected"), [
    ("both", lambda mask, triangle: mask & triangle), ("mask", lambda mask, _: mask),
    ("causal", lambda _, triangle: triangle)])
def test_a_causal_flag_becomes_a_mask_as_the_convention_says(convention: str, expected: type) -> None:
    before = Posed((posed(T=S, causal=True).one,), conventions={**RECOMMENDED, "mask_with_causal": convention})
    after = contents.causal_as_mask(before).one
    assert not after.causal
    wanted = np.broadcast_to(expected(before.one.mask, np.tri(S, dtype=bool)), (B, H, S, S))
    np.testing.assert_array_equal(after.mask, wanted)


@pytest.mark.parametrize(("to", "scale"), [
    ("default", 0.5), ("zero", 0.0), ("one", 1.0), ("doubled", 1.0), ("negated", -0.5)])
def test_an_explicit_scale_is_the_one_named(to: str, scale: float) -> None:
    assert with_scale(posed(), to=to).one.scale == scale  # type: ignore[arg-type]  # one of its choices


def test_weights_are_asked_for() -> None:
    assert contents.ask_weights(posed()).one.return_weights


def test_wider_heads_have_the_same_dot_products_and_values() -> None:
    after = axes.widen(posed(), by=4)
    assert (after.one.sizes.D, after.one.sizes.Dv) == (4 * D, 4 * DV)
    np.testing.assert_array_equal(logits(after.one), logits(posed().one))
    wide = after.one.value
    np.testing.assert_array_equal(read_back(after, [wide], ("B", "H", "T", "Dv")), posed().one.value)


def test_every_key_gets_a_twin() -> None:
    after = axes.repeat_keys(posed()).one
    np.testing.assert_array_equal(logits(after)[..., S:], logits(posed().one))
    np.testing.assert_array_equal(after.value[:, :, S:], after.value[:, :, :S])


@pytest.mark.parametrize("kept", range(1, S + 1))
def test_dropped_keys_are_cut_off(kept: int) -> None:
    after = axes.drop_keys(posed(), kept=Drawn(kept)).one
    np.testing.assert_array_equal(logits(after), logits(posed().one)[..., :kept])
    assert after.value.shape == (B, H, kept, DV)


@pytest.mark.parametrize("cut", range(T))
def test_queries_after_the_cut_are_cut_off(cut: int) -> None:
    after = axes.keep_queries(posed(), cut=Drawn(cut)).one
    np.testing.assert_array_equal(logits(after), logits(posed().one)[:, :, :cut + 1])


@pytest.mark.parametrize("cut", range(S))
def test_a_prefix_is_the_corner_of_the_sequence(cut: int) -> None:
    after = axes.keep_prefix(posed(T=S), cut=Drawn(cut)).one
    np.testing.assert_array_equal(logits(after), logits(posed(T=S).one)[:, :, :cut + 1, :cut + 1])


def test_only_one_sequence_has_a_prefix() -> None:
    with pytest.raises(NoClaim, match="are not one sequence"):
        axes.keep_prefix(posed(), cut=Drawn(0))


@pytest.mark.parametrize(("asked", "declared", "heads"), [
    ("declared", "repeat", [0, 0, 1, 1]), ("declared", "tile", [0, 1, 0, 1]), ("tile", "repeat", [0, 1, 0, 1]),
    ("repeat", "tile", [0, 0, 1, 1])])
def test_grouped_heads_are_spelled_out_in_the_order_asked_for(asked: str, declared: str, heads: list[int]) -> None:
    before = Posed((posed(Hkv=2).one,), conventions={"grouped_heads": declared})
    after = axes.repeat_kv_heads(before, order=asked).one  # type: ignore[arg-type]  # one of its choices
    np.testing.assert_array_equal(after.key, before.one.key[:, heads])
    np.testing.assert_array_equal(after.value, before.one.value[:, heads])


def test_an_undefined_order_of_grouped_heads_makes_no_claim() -> None:
    with pytest.raises(NoClaim, match="undefined"):
        axes.repeat_kv_heads(Posed((posed(Hkv=2).one,), conventions={"grouped_heads": "undefined"}), order="declared")


def test_key_value_heads_are_cut_off_where_the_rest_can_be_shared() -> None:
    assert axes.keep_kv_heads(posed(), kept=Drawn(2)).one.sizes == Sizes(B, H, 2, T, S, D, DV)
    with pytest.raises(NoClaim, match="not a multiple of the number of key/value heads"):
        axes.keep_kv_heads(posed(), kept=Drawn(3))


def test_asking_again_remembers_nothing() -> None:
    after = contents.again(posed())
    assert after.fresh
    assert after.one is not None


def test_other_problems_come_before() -> None:
    after = contents.after_another(posed(T=S), by=Drawn(1))
    other, shorter = after.before
    assert after.fresh
    assert other.sizes == after.one.sizes
    assert (other.query != after.one.query).any()
    assert shorter.sizes == Sizes(B, H, H, 1, 1, D, DV)
    assert len(contents.after_another(posed(), by=Drawn(1)).before) == 1


@pytest.mark.parametrize("layout", ["strided", "transposed", "broadcast"])
def test_another_layout_holds_the_same_entries_and_is_asked_for_afresh(layout: str) -> None:
    before = posed()
    after = contents.lay_out(before, layout=layout)  # type: ignore[arg-type]  # one of its choices
    for name in ("query", "key", "value", "mask", "bias"):
        np.testing.assert_array_equal(getattr(after.one, name), getattr(before.one, name))
    assert after.fresh


def test_layouts_differ_in_their_strides() -> None:
    dense = posed().one.query.strides
    strided, transposed, broadcast = (contents.lay_out(contents.share_heads(posed()), layout=layout).one.query.strides
                                      for layout in ("strided", "transposed", "broadcast"))
    assert all(wide > narrow for wide, narrow in zip(strided, dense, strict=True))
    assert transposed[1] < transposed[2]
    assert broadcast[1] == 0


@pytest.mark.parametrize("transform", [
    lambda p: axes.permute_keys(p, by=Drawn(1)), lambda p: contents.multiply(p, array="query", by=2.0),
    lambda p: contents.keep_values(p, of="even_keys"), lambda p: contents.hide_keys(p, kept=Drawn(1)),
    lambda p: contents.replace_after(p, arrays=("key", "value"), cut=Drawn(0)), contents.mask_as_bias,
    lambda p: contents.other_content(p, by=Drawn(1), arrays=("query", "key", "value"))])
def test_a_transform_leaves_its_problem_alone(transform: type) -> None:
    before, untouched = posed(), posed().one
    transform(before)
    for name in ("query", "key", "value", "mask", "bias"):
        np.testing.assert_array_equal(getattr(before.one, name), getattr(untouched, name))


# --- layers

RECIPE = Recipe(Sizes(2, 3, 3, 4, 5, 2, 4), ("integers",), "none", frozenset(), 7)


def layer() -> Posed[LayerProblem]:
    return Posed((make_layer(RECIPE, DType.FLOAT64),))


def through(problem: LayerProblem, linear: Array | None = None) -> Array:
    """(B,T,M): heads that each take the mean of their values times a number of their own, then the projection."""
    values = (problem.value @ problem.params["w_value"] + problem.params["b_value"]).reshape(2, 5, problem.heads, -1)
    queries = (problem.query @ problem.params["w_query"] + problem.params["b_query"]).reshape(2, 4, problem.heads, -1)
    mixed = queries.sum(axis=-1)[..., None] * values.mean(axis=1)[:, None]
    out: Array = mixed.reshape(2, 4, -1) @ problem.params["w_out"] + problem.params["b_out"]
    return out if linear is None else out + linear


@pytest.mark.parametrize("seed", range(4))
def test_reordered_heads_of_a_layer_give_the_same_output(seed: int) -> None:
    after = axes.permute_layer_heads(layer(), by=Drawn(seed))
    np.testing.assert_allclose(through(after.one), through(layer().one), rtol=1e-12)


def test_some_seed_reorders_the_heads_of_a_layer() -> None:
    old = layer().one.params["w_key"]
    moved = [axes.permute_layer_heads(layer(), by=Drawn(seed)).one.params["w_key"] for seed in range(4)]
    assert any((new != old).any() for new in moved)


def test_one_head_at_a_time_sums_to_the_whole() -> None:
    after = axes.one_head_at_a_time(layer())
    assert len(after.parts) == 3
    whole = as_one([through(part) for part in after.parts], after, ("B", "T", "M"))
    np.testing.assert_allclose(whole, through(layer().one), rtol=1e-12)


def test_heads_that_no_projection_sums_up_are_left_in_their_order() -> None:
    bare = layer()
    bare = bare.but(params={name: array for name, array in bare.one.params.items() if name not in ("w_out", "b_out")})
    with pytest.raises(OutsideLimits, match=r"^it has no output projection$"):
        axes.permute_layer_heads(bare, by=Drawn(1))
    with pytest.raises(OutsideLimits):
        axes.one_head_at_a_time(bare)


def test_a_problem_without_its_last_value_keeps_all_its_keys() -> None:
    whole, problem = posed().one, axes.drop_last_value(posed()).one
    assert problem.key.shape == whole.key.shape
    np.testing.assert_array_equal(problem.value, whole.value[:, :, :-1])


def test_indivisible_heads_do_not_divide_the_width() -> None:
    problem = axes.indivisible_heads(layer()).one
    assert problem.params["w_query"].shape[1] % problem.heads
    assert problem.heads > RECIPE.sizes.H
