"""Probes: how failures become answers, what contradicts a manifest, and what the command makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.forms import InputForm
from attnspec.core.nouns import DType
from attnspec.faults.staged import as_attend, attention
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.faults.subject import own_subject
from attnspec.probing.probe import probe_subject
from attnspec.problems.problem import Array
from attnspec.record.events import Found
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject
from helpers.subjects import subject_of

ALL = frozenset({"mask", "bias", "causal", "scale", "return_weights"})


def liar(answer: Callable[[HandedOver], Answer], **declared: Any) -> Subject:  # noqa: ANN401  (a declaration's fields)
    return subject_of(as_attend(answer), ALL, **declared)


def asked(subject: Subject, question: str, dtype: DType = DType.FLOAT32, base: Subject | None = None) -> Found | None:
    return next(step for step in probe_subject(subject, dtype, base=base) if step.name == question).ask_question()


def found(subject: Subject, question: str, dtype: DType = DType.FLOAT32, base: Subject | None = None) -> Found:
    answer = asked(subject, question, dtype, base)
    assert answer is not None
    return answer


def raising(call: HandedOver) -> Answer:
    raise ValueError(f"no {call.query.ndim} axes")


@pytest.mark.parametrize(("answer", "told"), [
    (raising, ("raises", "ValueError: no 4 axes")),
    (lambda _: np.zeros(3), ("unusable", "The subject returned a ndarray of shape (3,) and dtype float64 where ")),
    (lambda call: call.query * 0 + 9, ("other", "[9 9 9 9; 9 9 9 9; 9 9 9 9; 9 9 9 9]"))])
def test_whatever_goes_wrong_is_an_answer(answer: Callable[[HandedOver], Answer], told: tuple[str, str]) -> None:
    polarity = found(liar(answer), "mask.polarity")
    assert (polarity.answer, polarity.detail[:len(told[1])]) == told


@pytest.mark.parametrize("target", ["fault/scale_none", "sound/naive", "sound/fused_blocks"])
def test_every_step_of_every_subject_gives_an_answer_of_its_list(target: str) -> None:
    from attnspec.probing.probe import ALL_QUESTIONS

    lists = {question.name: question.answers for question in ALL_QUESTIONS}
    for step in probe_subject(own_subject(target), DType.FLOAT16):
        answer = step.ask_question()
        assert answer is None or not lists[step.name] or answer.answer in lists[step.name], answer


def test_what_a_subject_does_not_take_is_not_asked() -> None:
    bare = subject_of(lambda query, key, value: value * 1)  # noqa: ARG005  (the contract's)
    names = {step.name for step in probe_subject(bare, DType.FLOAT32) if step.ask_question()}
    assert not {name for name in names if name.startswith(("mask", "bias", "causal", "hidden", "window", "softcap"))}
    assert {"scale.default", "dtype.output", "zero.keys"} <= names


def test_a_negated_mask_is_a_contradiction_and_is_turned_round_afterwards() -> None:
    dropping = liar(lambda call: attention(call if call.mask is None else call.but(mask=~call.mask)))
    assert found(dropping, "mask.polarity").is_contradiction
    assert found(dropping, "hidden_row.mask").answer == "zeros"
    assert found(dropping, "mask_with_causal").answer == "both"
    assert found(dropping, "hidden_value.nan.mask").answer == "harmless"


@pytest.mark.parametrize(("declared", "question", "claimed"), [
    ({"conventions": {"hidden_row": "nan"}}, "hidden_row.mask", "nan"),
    ({"conventions": {"hidden_row": "zeros", "hidden_row.bias": "uniform"}}, "hidden_row.bias", "uniform"),
    ({"conventions": {"causal_alignment": "bottom_right"}}, "causal_alignment.longer_queries", "bottom_right"),
    ({"conventions": {"mask_with_causal": "raises"}}, "bias_with_causal", "raises"),
    ({"limits": Limits(grouped=False)}, "grouped", "no"),
    ({"limits": Limits(ties_value_width=True)}, "value_width", "no"),
    ({"limits": Limits(weights="averaged"), "claims": ("weights",)}, "weights.heads", "averaged"),
    ({"output_dtype": "float64"}, "dtype.output", "float64"),
])
def test_what_is_declared_otherwise_is_a_contradiction(declared: dict[str, Any], question: str, claimed: str) -> None:
    answer = found(liar(attention, **declared), question)
    assert (answer.claimed, answer.is_contradiction) == (claimed, True)


def test_a_subject_of_chance_contradicts_its_determinism_alone() -> None:
    draw = np.random.default_rng(0)
    random = liar(lambda call: draw.normal(size=call.query.shape).astype(np.float32), claims=("purity",))
    answers = [answer for step in probe_subject(random, DType.FLOAT32) if (answer := step.ask_question())]
    assert [answer.question for answer in answers if answer.is_contradiction] == ["determinism.twice"]
    assert {answer.question for answer in answers if answer.claimed} == {"determinism.twice"}


def test_queries_that_share_one_mask_are_asked_with_one() -> None:
    sharing = liar(attention, limits=Limits(mask_axes="BHS"))
    for question, answer in {"mask.polarity": "keep", "mask_with_causal": "both", "hidden_row.mask": "zeros",
                             "hidden_key.nan.mask": "harmless", "mask.float": "truth"}.items():
        assert found(sharing, question).answer == answer
    assert found(sharing, "switch.mask_hidden_row", base=sharing).answer == "agree"


def test_an_undefined_convention_claims_nothing() -> None:
    assert not found(liar(attention, conventions={"hidden_row": "undefined"}), "hidden_row.mask").claimed


def test_the_dtype_that_comes_back_is_told() -> None:
    def wide(call: HandedOver) -> Array:
        return np.asarray(attention(call)).astype(np.float64)

    assert (found(liar(attention), "dtype.output").answer, found(liar(wide), "dtype.output").answer) == (
        "input", "float64")
    assert found(liar(wide), "dtype.promotion").answer == "float64"
    assert found(liar(wide), "dtype.output").is_contradiction


def test_an_output_dtype_that_is_undefined_claims_nothing() -> None:
    assert not found(liar(attention, output_dtype="undefined"), "dtype.output").claimed


@pytest.mark.family(1, each="target")
@pytest.mark.parametrize("target", ["numpy/attention", "numpy/msa", "numpy/paper"])
@pytest.mark.parametrize("dtype", DType)
def test_what_is_written_in_numpy_does_as_its_manifest_claims(target: str, dtype: DType) -> None:
    answers = [answer for step in probe_subject(load_target(target), dtype) if (answer := step.ask_question())]
    assert len(answers) > 30
    assert [answer for answer in answers if answer.is_contradiction] == []


def test_coarse_answers_contradict_the_precision_and_exact_ones_do_not() -> None:
    coarse = own_subject("fault/inputs_bfloat16")
    told = found(coarse, "precision")
    assert (told.answer.startswith("inputs in "), told.claimed) == (True, "G0")
    exact = found(own_subject("sound/naive"), "precision", DType.BFLOAT16)
    assert (exact.answer, exact.is_contradiction) == ("G0", False)


def test_changed_and_shared_inputs_are_named() -> None:
    def spoil(call: HandedOver) -> Answer:
        call.key[...] = 0
        return attention(call)

    def through(call: HandedOver) -> Answer:
        return call.value if call.key.shape[2] == 1 else attention(call)

    assert found(liar(spoil), "mutated").answer == "key"
    assert found(liar(through), "aliased").answer == "value"


GRADIENTS: dict[str, tuple[str, str]] = {  # what is done: the answer about a hidden key, and about a hidden row
    "logits.masked_fill(~mask, -torch.inf)": ("zero", "nan"),
    "logits.masked_fill(~mask, -1e9)": ("zero", "finite"),
    "logits.masked_fill(~mask, -4.0)": ("nonzero", "finite"),
    "torch.where(mask, logits, torch.log(0 * logits))": ("nan", "nan")}


@pytest.mark.parametrize("hide", GRADIENTS)
def test_gradients_are_followed_to_what_is_hidden(hide: str) -> None:
    torch = pytest.importorskip("torch")

    def attend(query: Any, key: Any, value: Any, *, mask: Any = None) -> Any:  # noqa: ANN401  (tensors)
        logits = query @ key.mT
        logits = logits if mask is None else eval(hide)
        return torch.softmax(logits, -1) @ value

    subject = subject_of(attend, {"mask"}, lift="torch")
    assert found(subject, "gradient.flow").answer == "yes"
    answers = tuple(found(subject, f"gradient.{name}.mask").answer for name in ("hidden_key", "hidden_row"))
    assert answers == GRADIENTS[hide]


def test_a_packed_function_is_not_asked_for_gradients_by_row_and_key() -> None:
    torch = pytest.importorskip("torch")

    def attend(query: Any, key: Any, value: Any, *, cu_query: Any, cu_key: Any) -> Any:  # noqa: ANN401, ARG001  (tensors)
        return torch.softmax(query @ key.mT, -1) @ value

    subject = subject_of(attend, lift="torch", form=InputForm.PACKED, given=frozenset({"cu_query", "cu_key"}))
    assert asked(subject, "gradient.flow") is None


def test_a_subject_without_gradients_says_so_and_is_asked_no_more() -> None:
    torch = pytest.importorskip("torch")

    def attend(query: Any, key: Any, value: Any, *, mask: Any = None) -> Any:  # noqa: ANN401  (tensors)
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    subject = subject_of(attend, {"mask"}, lift="torch")
    assert found(subject, "gradient.flow").answer == "no"
    assert asked(subject, "gradient.hidden_key.mask") is None
    assert asked(liar(attention), "gradient.flow") is None  # NumPy has none


def test_a_jitted_function_of_jax_is_differentiated() -> None:
    jax = pytest.importorskip("jax")
    attend = jax.jit(lambda query, key, value, *, mask=None: jax.nn.softmax(
        jax.numpy.where(True if mask is None else mask, query @ key.mT, -1e9)) @ value,
        compiler_options={"xla_cpu_use_fusion_emitters": False})
    subject = subject_of(attend, {"mask"}, lift="jax")
    assert found(subject, "gradient.flow").answer == "yes"
    assert found(subject, "gradient.hidden_key.mask").answer == "zero"


def switched(target: str, name: str) -> Found:
    subject = own_subject(target)
    return found(next(iter(subject.variants.values())), f"switch.{name}", base=subject)


def test_a_switch_that_changes_the_answer_is_told_with_both_numbers() -> None:
    told = switched("fault/switch_causal_dropped", "causal")
    assert (told.answer, told.claimed) == ("differ", "agree")
    assert told.detail.startswith("at b=0, h=0, t=0, d=0: ")
    assert ", and in the variant " in told.detail
    assert told.detail.endswith(" entries differ")
    assert switched("fault/switch_causal_dropped", "plain").answer == "agree"


def test_a_switch_that_makes_a_call_fail_is_told() -> None:
    def refuse(call: HandedOver) -> Answer:
        return raising(call) if call.bias is not None else attention(call)

    told = found(liar(refuse), "switch.bias", base=liar(attention))
    assert told.answer == "differ"
    assert told.detail.endswith(", and the variant raises (ValueError: no 4 axes)")
    assert found(liar(refuse), "switch.bias", base=liar(refuse)).answer == "agree"


def test_variants_that_declare_other_conventions_need_not_agree_about_them() -> None:
    def nan_rows(call: HandedOver) -> Answer:
        output = np.asarray(attention(call))
        sees: Array = np.ones(output.shape[:3], bool) if call.mask is None else np.asarray(call.mask.any(axis=-1))
        return np.where(sees[..., None], output, np.nan)

    base = liar(attention, conventions={"hidden_row": "zeros"})
    same, other = (liar(nan_rows, conventions={"hidden_row": answer}) for answer in ("zeros", "nan"))
    told = [found(variant, "switch.mask_hidden_row", base=base) for variant in (same, other)]
    assert [(each.answer, each.claimed) for each in told] == [("differ", "agree"), ("differ", "")]
