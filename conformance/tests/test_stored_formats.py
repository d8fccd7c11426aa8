"""What a kernel says that it stores: words are read, each term of the bound holds, and none is far from the truth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised.inside import (
    INSIDE,
    coded_range,
    codes_under,
    largest_of,
    nearest,
    power_above,
    quantise_entries,
    read_back,
    split,
)
from attnspec.aspects.quantised.inside_faults import BESIDE_LSE, INSIDE_FAULTS
from attnspec.aspects.quantised.storage import STORAGES, read_granularity
from attnspec.aspects.quantised.stored_format import describe_what_passes, entry_errors, read_stored, shares_that_pass
from attnspec.core.errors import ManifestError
from attnspec.core.forms import InputForm
from attnspec.core.nouns import DType, Effort
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.faults.sound import declaration_of_sound, sound_named
from attnspec.faults.subject import own_subject
from attnspec.numerics.bound import moved_products
from attnspec.numerics.expectation import expect
from attnspec.numerics.operands import Operands, read_entries
from attnspec.numerics.precision import STORED_WORDS, Precision, assumed_precision, declared_precision, named_precision
from attnspec.numerics.roundings import roundings
from attnspec.numerics.stored import (
    add_rescaling,
    cut_stored_blocks,
    stored_arrays,
    stored_hull,
    stored_weight_error,
)
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Array, Problem, Recipe, Sizes
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.sizes import Dealer
from attnspec.trials.trial import Trial
from evaluation.power.measure import convict
from helpers.commands import Cli
from helpers.law import checks
from helpers.places import CHECKOUT

F32 = DType.FLOAT32
CONVENTIONS = {"grouped_heads": "repeat", "causal_alignment": "top_left"}
TEXTS = ("int8 by token", "int8 by tokens(64)", "float8_e4m3fn by head", "float8_e5m2", "int4 by channel from 1e-05",
         "uint8 by token", "uint4 by tokens(32)", "mxfp8", "mxfp4", "nvfp4", "mxfp8 by channel_tokens(32)",
         "nvfp4 by channel_tokens(16)", "int8 by block(16)")


def storing(dtype: DType = F32, **words: str) -> Precision:
    """The class of a kernel that stores something."""
    return declared_precision({**words, "reason": "it quantises inside"}, dtype)


# Words


@pytest.mark.parametrize(("word", "text"), [
    *(("stored_value", text) for text in TEXTS), ("stored_key", "int8 by token smoothed"),
    ("stored_weights", "float8_e4m3fn times 256"), ("stored_weights", "int8 times 127 divided"),
    ("stored_weights", "float8_e4m3fn times 256 summed"), ("stored_weights", "uint8 times 255")])
def test_a_format_is_written_as_it_is_read(word: str, text: str) -> None:
    assert str(read_stored(word, text)) == text
    precision = storing(**{word: text})  # type: ignore[arg-type]  # by name
    assert named_precision(str(precision), F32).stored_formats == precision.stored_formats


@pytest.mark.parametrize(("word", "given", "message"), [
    ("stored_key", "int9 by token", "'int9' is not a known format of codes .of 'stored_key' .*Did you mean 'int"),
    ("stored_key", "int8 by tokens", "'tokens' is not a known granularity .*Did you mean 'token'"),
    ("stored_key", "int8, by token", "must be a format and who shares a scale, such as `int8 by token`"),
    ("stored_key", 8, "must be a format and who shares a scale, such as `int8 by token`.* not 8"),
    ("stored_key", "mxfp8 by token", r"blocks of mxfp8 have 32 entries: say block\(32\) or channel_tokens"),
    ("stored_key", "nvfp4 by block(32)", r"blocks of nvfp4 have 16 entries: say block\(16\)"),
    ("stored_key", "mxfp4 from 1e-5", "scales of mxfp4 are rounded, and none has a least"),
    ("stored_weights", "mxfp8", "have a fixed factor"),
    ("stored_key", "int8 by 0 tokens", "'0 tokens' is not a known granularity"),
    ("stored_key", "int8 by page", "'page' is not a known granularity"),
    ("stored_key", "int8 times 1e999", "1e999 is no number above 0"),
    ("stored_key", "int8 by token times 3", "or a factor is fixed, not both"),
    ("stored_key", "int8 from 1e-5", "only a scale that is taken from the entries can have a least"),
    ("stored_key", "uint8", "say who shares it, as in `uint8 by token`"),
    ("stored_value", "int8 by token smoothed", "only keys have their mean taken off"),
    ("stored_key", "int8 by token divided", "only weights are divided"),
    ("stored_weights", "int8 by token", "have a fixed factor, such as `float8_e4m3fn times 256`"),
    ("stored_weights", "int8 times 128", "a weight of 1 times 128 is more than the largest code, 127"),
    ("stored_weights", "int8 times 127 divided summed", "or by that of the codes, not both")])
def test_a_format_that_makes_no_sense_says_the_way_out(word: str, given: object, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        declared_precision({word: given, "reason": "it quantises inside"}, F32)


@pytest.mark.parametrize(("given", "meant"), [
    ("int8 by 64 tokens", "int8 by tokens(64)"), ("mxfp4 by block(32)", "mxfp4"), ("nvfp4 by block(16)", "nvfp4")])
def test_two_spellings_of_one_format_are_one(given: str, meant: str) -> None:
    assert str(read_stored("stored_key", given)) == meant
    assert read_stored("stored_key", given) == read_stored("stored_key", meant)


@pytest.mark.parametrize(("given", "meant"), [
    ("head", "head"), ("page", "page"), ("tokens(64)", "tokens(64)"), ("64 tokens", "tokens(64)"),
    ("channel_tokens(032)", "channel_tokens(32)"), ("tokens", ""), ("head(3)", ""), ("tokens(0)", ""), ("token ", "")])
def test_a_granularity_is_read_by_one_grammar(given: str, meant: str) -> None:
    assert read_granularity(given) == meant


def test_a_class_that_stores_codes_gives_a_reason() -> None:
    with pytest.raises(ManifestError, match="looser than the assumed one"):
        declared_precision({"stored_key": "int8 by token"}, F32)


# Entries: half a step, half a unit


def entries(family: str) -> Array:
    """(2,2,70,6), float32."""
    random = np.random.RandomState(3)
    made: Mapping[str, Callable[..., Array]] = {
        "normal": random.randn, "heavy": lambda *shape: random.standard_t(2, shape),
        "offset": lambda *shape: 4 + random.randn(*shape), "tiny": lambda *shape: 1e-30 * random.randn(*shape),
        "whole": lambda *shape: random.randint(-3, 4, shape), "zero": lambda *shape: np.zeros(shape)}
    return np.asarray(made[family](2, 2, 70, 6), np.float32)


def allowed_errors(array: Array, text: str, dtype: DType = F32) -> Array:
    """How far entries (B,H,S,D) may be from what is read back, as many axes."""
    with np.errstate(all="ignore"):  # blocks of zeros, and of what is not finite
        return entry_errors(array.astype(np.float64), read_stored("stored_key", text), assumed_precision(dtype))


def stored_otherwise(array: Array, text: str) -> Iterator[Array]:
    """What kernels read back of entries (B,H,S,D), in float64: they divide, or multiply by a reciprocal, or by a factor
    more; a zero point is a fraction, a whole number, or the least entry itself.
    """
    storage, granularity = split(text)
    if storage.startswith("uint"):
        codes, scale, zero = coded_range(array, storage, granularity)
        least = (-zero * scale).astype(np.float64)
        yield (codes.astype(np.float64) - zero) * scale
        yield (nearest(array * (1 / scale) + np.rint(zero), storage).astype(np.float64) - np.rint(zero)) * scale
        yield nearest((array - least) / scale, storage) * scale.astype(np.float64) + least
        return
    codes, scale = quantise_entries(array, storage, granularity)
    yield codes.astype(np.float64) * scale
    yield nearest(array * (1 / scale), storage).astype(np.float64) * scale
    if STORAGES[storage].block:  # by products with a factor, scales rounded up, or not at all
        grown = array * np.float32(1.4427)
        codes, scale = quantise_entries(grown, storage, granularity)
        yield codes * (scale / 1.4427)
        if STORAGES[storage].has_power_scales:
            scale = power_above(largest_of(np.abs(array), granularity), storage)
            yield codes_under(array, storage, scale).astype(np.float64) * scale
        return
    factor = np.float32(1.4427)
    yield nearest(array * factor / (scale * factor), storage).astype(np.float64) * scale


@pytest.mark.parametrize("family", ["normal", "heavy", "offset", "tiny", "whole", "zero"])
@pytest.mark.parametrize("text", [text for text in TEXTS if text != "float8_e5m2" and "from" not in text])
def test_no_entry_is_read_back_further_off_than_is_said(text: str, family: str) -> None:
    array = entries(family)
    allowed = allowed_errors(array, text)
    off = [np.abs(each - array) for each in stored_otherwise(array, text)]
    if "uint" in text and family == "whole":  # of a block of one number, a whole zero point says nothing
        off = off[::2]
    assert all((each <= allowed).all() for each in off)
    if family in {"normal", "heavy"}:
        is_floating = not STORAGES[split(text)[0]].is_whole  # no number is further from a code than a 17th of itself
        nearly = 0.93 if is_floating and "4" not in text.partition("fp")[2] else 0.79 if is_floating else 0.97
        assert max((each / allowed).max() for each in off) > nearly


@pytest.mark.parametrize("storage", ["int8", "int4", "uint8", "uint4"])
def test_half_a_step_is_half_of_what_the_largest_code_counts(storage: str) -> None:
    steps = {"int8": 127, "int4": 7, "uint8": 255, "uint4": 15}[storage]
    span = Fraction(4) if storage.startswith("u") else Fraction(3)  # of the range from -1 to 3, or of 3
    array = np.array([3.0, -1.0, 1.0 + float(span / steps / 4)]).reshape(1, 1, 1, 3)
    found = allowed_errors(array, f"{storage} by token", DType.FLOAT64)
    assert found[0, 0, 0, 2] == pytest.approx(float(span / steps / 2), rel=1e-12)


def test_a_code_has_no_more_than_half_a_unit_of_its_own_size() -> None:
    array = np.array([448.0, 3.1, 2.0**-9]).reshape(1, 1, 1, 3)
    found = allowed_errors(array, "float8_e4m3fn by token", DType.FLOAT64)[0, 0, 0]
    assert found[0] < 448 * 2.0**-49  # the largest has the largest code
    assert found[1] == pytest.approx(3.1 / 16, rel=1e-12)
    assert found[2] == pytest.approx(2.0**-10, rel=1e-12)  # half the distance of codes below the normal range


@pytest.mark.parametrize("text", ["int8 by token", "float8_e4m3fn by head", "float8_e5m2"])
def test_a_code_of_zero_moves_no_entry_by_more_than_itself(text: str) -> None:
    array = entries("heavy")
    found = allowed_errors(array, text)
    assert (found <= np.abs(array) * (1 + 1e-5)).all()


def test_without_a_scale_what_is_beyond_the_largest_code_may_be_anything() -> None:
    array = np.array([[[[57344.0, 57345.0, -1e9, 1.0]]]])
    found = allowed_errors(array, "float8_e5m2")
    np.testing.assert_array_equal(np.isinf(found), [[[[False, True, True, False]]]])


@pytest.mark.parametrize("text", ["int8 by head", "uint8 by head"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_of_a_scale_that_is_not_finite_nothing_is_said(text: str, poison: float) -> None:
    array = np.ones((1, 2, 3, 2))
    array[0, 0, 1, 0] = poison
    found = allowed_errors(array, text)
    assert np.isinf(np.delete(found[0, 0].ravel(), 2)).all()
    assert found[0, 0, 1, 0] == 0  # what an entry is that is not finite, the truth says
    assert (found[0, 1] < 1e-5).all()


@pytest.mark.parametrize("text", ["int8 by token", "uint8 by token"])
def test_a_scale_that_vanishes_may_lose_its_block(text: str) -> None:
    array = np.array([[[[1e-40, -3e-41]]]])
    found = allowed_errors(array, text)
    assert (found >= np.abs(array)).all()


def test_keys_without_their_mean_are_as_exact_as_what_is_left_of_them() -> None:
    keys = entries("offset")
    mean = keys.mean(axis=2, keepdims=True)
    off = np.abs(read_back(keys - mean, "int8", "token") + mean - keys)
    allowed = allowed_errors(keys, "int8 by token smoothed")
    assert (off <= allowed).all()
    assert (off / allowed).max() > 0.9
    assert allowed.mean() < 0.6 * allowed_errors(keys, "int8 by token").mean()


# What becomes of them: products, values, weights


def posed(family: str, dtype: DType = F32, seed: int = 4, S: int = 17) -> Problem:
    """A problem of one head."""
    return make_problem(Recipe(Sizes(1, 1, 1, 9, S, 8, 6), (family,), "none", frozenset(), seed), dtype)


def operands_of(problem: Problem, precision: Precision) -> Operands:
    """The problem with what quantising inside may do to its entries."""
    plain, whole = roundings(precision), read_entries(problem)
    [block] = cut_stored_blocks(whole, add_rescaling(plain, whole, stored_arrays(problem, plain)), CONVENTIONS)
    return block.operands


def test_products_are_off_by_the_errors_of_both_and_by_no_less() -> None:
    problem = posed("student_t")
    operands = operands_of(problem, storing(stored_query="int8 by token", stored_key="int8 by token"))
    assert operands.entry_errors is not None
    query, key = (read_back(array, "int8", "token").astype(np.float64) for array in (problem.query, problem.key))
    allowed = moved_products(operands, operands.entry_errors)
    off = np.abs(query @ key.swapaxes(-1, -2) - operands.query @ operands.key.swapaxes(-1, -2))
    assert (off <= allowed).all()
    both = [(np.abs(array), error) for array, error in (
        (operands.query, operands.entry_errors.query), (operands.key, operands.entry_errors.key))]
    (q, dq), (k, dk) = both
    np.testing.assert_allclose(allowed, (q + dq) @ (k + dk).swapaxes(-1, -2) - q @ k.swapaxes(-1, -2))


def test_what_is_handed_over_as_codes_is_not_stored_again() -> None:
    recipe = Recipe.parse("B1,H1,Hkv1,T5,S7,D6,Dv3;mask=none;families=normal;with=key_scale;"
                          "key_scale=int8/head/odd;seed=11")
    words = storing(stored_key="int4 by token", stored_value="int8 by token")
    assert set(stored_arrays(make_problem(recipe, F32), roundings(words))) == {"value"}


def test_scales_and_zero_points_cost_two_roundings_each() -> None:
    problem, u = read_entries(posed("normal")), 2.0**-24
    for text, times in (("int8 by token", 2), ("uint8 by token", 4)):
        r = roundings(storing(stored_query=text, stored_key=text, stored_value=text))
        inputs = add_rescaling(r, problem, stored_arrays(posed("normal"), r)).inputs
        assert inputs.of_values == pytest.approx(times * u, rel=1e-6)
        assert inputs.of_logits == pytest.approx(2 * times * u, rel=1e-6)
        assert (inputs.key_offset > 0) == ("uint" in text)


@pytest.mark.parametrize("text", ["float8_e4m3fn times 256", "float8_e5m2", "int8 times 127", "uint8 times 255"])
def test_no_weight_is_read_back_further_off_than_is_said(text: str) -> None:
    stored = read_stored("stored_weights", text)
    grown = np.exp(-np.random.RandomState(0).exponential(3, (1, 1, 40, 50)))
    grown[..., 0] = 1
    total = grown.sum(axis=-1)
    found = stored_weight_error(stored, grown, total, total)
    off = np.abs(nearest(grown * stored.factor, stored.storage) / stored.factor - grown) / total[..., None]
    assert (off <= found.distances).all()
    assert (off / found.distances).max() > 0.97
    assert (off.sum(axis=-1, keepdims=True) <= found.mass).all()


def test_values_that_are_read_back_lie_in_the_hull_of_what_may_be() -> None:
    problem, precision = posed("student_t"), storing(stored_value="int8 by token")
    low, high = stored_hull(problem, CONVENTIONS, precision)
    stored = read_back(problem.value, "int8", "token")
    assert (low <= stored.min(axis=2, keepdims=True)).all()
    assert (high >= stored.max(axis=2, keepdims=True)).all()
    plain_low, plain_high = stored_hull(problem, CONVENTIONS, assumed_precision(F32))
    np.testing.assert_array_equal(plain_high, np.broadcast_to(problem.value.max(axis=2, keepdims=True), high.shape))
    assert (low < plain_low).all()


# The whole


DENSE = [each for each in INSIDE if each.form is InputForm.DENSE]
FAMILIES = ("normal", "student_t", "log_normal", "offset", "integers")


def shares_of_bound(formulation: SoundFormulation, dtype: DType) -> Iterator[float]:
    """By problem, the largest error of an output in units of what is allowed."""
    sound = sound_named(formulation.name)
    precision = declared_precision(declaration_of_sound(sound).precision[dtype], dtype)
    for family in FAMILIES:
        for seed, S in ((1, 5), (4, 5), (5, 17), (2, 64)):
            problem = posed(family, dtype, seed, S)
            seen = np.asarray(sound.function(problem.query, problem.key, problem.value)).astype(np.float64)
            expected = expect(problem, precision, conventions=CONVENTIONS)
            assert expected.claimed.all()
            yield float((np.abs(seen - expected.output) / expected.output_allowance).max())


@pytest.mark.parametrize("dtype", [F32, DType.FLOAT16, DType.BFLOAT16])
@pytest.mark.parametrize("formulation", DENSE, ids=lambda each: each.name)
def test_sound_formulations_stay_within_a_bound_that_is_not_loose(formulation: SoundFormulation, dtype: DType) -> None:
    shares = list(shares_of_bound(formulation, dtype))
    assert max(shares) <= 1
    assert max(shares) > 0.1


def test_what_is_not_declared_is_convicted() -> None:
    sound, problem = sound_named("inside_four_bits"), posed("normal")
    off = np.abs(sound.function(problem.query, problem.key, problem.value)
                 - expect(problem, storing(stored_key="int8 by token", stored_value="int8 by token"),
                          conventions=CONVENTIONS).output)
    for words in ({}, {"stored_key": "int8 by token", "stored_value": "int8 by token"}):
        precision = storing(F32, **words) if words else assumed_precision(F32)
        assert (off > expect(problem, precision, conventions=CONVENTIONS).output_allowance).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("formulation", INSIDE, ids=lambda each: each.name)
@pytest.mark.parametrize("effort", ["glance", pytest.param("quick", marks=pytest.mark.nightly)])
@pytest.mark.family(2)
def test_every_sound_formulation_conforms(cli: Cli, formulation: SoundFormulation, dtype: str, effort: str) -> None:
    code, out, err = cli("check", f"sound/{formulation.name}", "--effort", effort, "--dtype", dtype, "--no-record")
    assert code == 0, out + err


def test_parts_merge_where_their_log_sum_exps_may_be_anything() -> None:
    """The sum of codes may be 0 where many weights are small; then no share of a part is known."""
    subject, check = own_subject("sound/inside_codes_summed"), checks()["lse.merges"]
    evaluator, dealer = Evaluator(subject, DType.BFLOAT16), Dealer(subject, checks, Effort.QUICK, 0)
    tried = Trial(check, evaluator, Effort.QUICK, seed_of(0, check.domain), lambda _: None, shrinks=False,
                  shapes=dealer.shapes(check, DType.BFLOAT16))
    assert tried.hold().failure is None


@pytest.mark.parametrize("fault", [*INSIDE_FAULTS, *BESIDE_LSE], ids=lambda each: each.name)
@pytest.mark.family(6)
def test_each_fault_of_quantising_inside_is_convicted(fault: Fault) -> None:
    found = convict(own_subject(f"fault/{fault.name}"), F32, checks=checks(), effort=Effort.QUICK, seed=0)
    assert found.conviction.convicted


def test_faults_of_quantising_inside_say_what_they_store() -> None:
    assert len(INSIDE_FAULTS) >= 40
    assert all(STORED_WORDS.keys() & fault.words.keys() for fault in INSIDE_FAULTS)


# The worked example


[EXAMPLE] = re.findall(r"<!-- example: sage.py, judged by \S+ -->\n```python\n(.*?)```",
                       (CHECKOUT / "docs" / "quantised.md").read_text(encoding="utf-8"), re.DOTALL)


def checked(cli: Cli, tmp_path: Path, source: str, *words: str) -> tuple[int, str]:
    """The exit code of a check of this function, and what is printed."""
    path = tmp_path / "sage.py"
    path.write_text(source, encoding="utf-8")
    code, out, err = cli("check", str(path), "--no-record", *words)
    return code, out + err


def test_the_worked_example_conforms_and_says_what_passes(cli: Cli, tmp_path: Path) -> None:
    code, told = checked(cli, tmp_path, EXAMPLE, "--effort", "glance")
    assert code == 0, told
    assert "it quantises inside, so that an error of one entry passes up to 1.7 of the output's size" in told


@pytest.mark.family(1)
@pytest.mark.parametrize(("right", "wrong", "told"), [
    ("(value / scale).astype", "np.clip(value / scale, -240, 240).astype", "rows of weights sum to 0.5357143"),
    ("* scale for block", "* scales[0] for block", "S ≥ 65"),
    ("key.mean(2", "key.mean(3", "inside_mean_of_features"),
    ("/ 448 / total", "/ 448 / (codes.astype(np.float32) / 256).sum(-1, keepdims=True)", "inside_weights_factor_left"),
    ("weights * 448", "weights * 512", "Does not conform"),
    ("int8 by 64 tokens smoothed", "int8 by token smoothed", "the largest logit")])
def test_the_example_with_a_mistake_does_not_conform(
        cli: Cli, tmp_path: Path, right: str, wrong: str, told: str) -> None:
    assert right in EXAMPLE
    code, printed = checked(cli, tmp_path, EXAMPLE.replace(right, wrong), "--clause", "attention.*",
                            "--clause", "quantised.*", "--effort", "quick")
    assert code == 1
    assert told in printed


# How large an error passes


def test_how_large_an_error_passes_is_told_of_who_quantises_alone() -> None:
    assert describe_what_passes([assumed_precision(F32), assumed_precision(DType.BFLOAT16)]) == ""
    told = describe_what_passes([assumed_precision(DType.FLOAT64), storing(stored_key="int8 by token")])
    assert told.startswith("it quantises inside, so that an error of one entry passes up to 0.")
    assert told.endswith("where roundings are independent (float32)")


@pytest.mark.parametrize(("finer", "coarser"), [
    ("int8 by token", "int4 by token"), ("uint8 by token", "int8 by token"), ("int8 by token", "int8 by head"),
    ("float8_e4m3fn by head", "float8_e5m2 by head")])
def test_the_finer_the_codes_the_less_passes(finer: str, coarser: str) -> None:
    less, more = (shares_that_pass(storing(stored_key=text), 64) for text in (finer, coarser))
    assert all(one < other for one, other in zip(less, more, strict=True))
