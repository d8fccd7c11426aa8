"""Gradients: how they are asked for, of a backward pass or of a framework, what is due, and who is judged by which."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.gradients import words as gradients
from attnspec.aspects.gradients.keyword import GRAD_PATTERNS, USUAL_GRADS
from attnspec.core.errors import ManifestError, TargetError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import GRADIENTS_ONCE, Plan
from attnspec.engine.engine import Engine
from attnspec.engine.summon import samples_gradients
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import SOUND_BACKWARD, fault_subject
from attnspec.numerics.gradients import expect_gradients
from attnspec.problems.keyword_arrays import keyword_array
from attnspec.problems.problem import Sizes
from attnspec.subjects.manifest import read_manifest
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import NotDifferentiated, Subject, UnusableAnswer
from attnspec.trials.evaluator import Evaluator, rows_without_gradient
from attnspec.vocabulary.scene import NoClaim, Posed
from helpers.gradients import grad, problem, verdicts

HEAD = "import numpy as np\n"
FORWARD = "def attend(query, key, value, *, causal=False, scale=None):\n    return query[..., :value.shape[-1]] * 0\n"
ZEROS = "{'query': query * 0, 'key': key * 0, 'value': value * 0}"
FAULTS = sorted(name for name in CATALOGUE if name.startswith("grad_") and name != "grad_switches_to_training")
OF_LAYERS = {"gradients.of_input_projections", "gradients.projections_apart", "gradients.of_output_projection",
             "gradients.of_projection_biases", "gradients.of_output_bias"}
COUNTER = itertools.count()


def mine(folder: Path, backward: str, *, forward: str = FORWARD) -> Subject:
    """What a file has with these two functions, in this process."""
    path = folder / f"mine{next(COUNTER)}.py"
    path.write_text(HEAD + forward + backward, encoding="utf-8")
    return load_target(f"{path}:attend")


def backward(returns: str = ZEROS, parameters: str = "*, causal=False, scale=None", body: str = "") -> str:
    return f"def attend_backward(query, key, value, grad_output, {parameters}):\n{body}    return {returns}\n"


# The backward pass of one's own


def test_a_backward_pass_is_found_by_its_name(tmp_path: Path) -> None:
    subject = mine(tmp_path, backward())
    assert subject.backward is not None
    assert subject.backward.name == "attend_backward"
    assert subject.backward.keywords == {"causal", "scale"}
    assert "grad_output" in subject.declaration.keywords


def test_gradients_come_by_the_names_of_the_inputs(tmp_path: Path) -> None:
    made = problem("causal")
    answer = mine(tmp_path, backward("{'query': query * 2, 'key': key * 3, 'value': value * 4}")).answer(made)
    np.testing.assert_array_equal(answer.by_input["key"], made.key * 3)
    assert set(answer.by_input) == {"query", "key", "value"}
    assert answer.output.shape == (2, 4, 5, 4)


def test_a_backward_pass_is_handed_output_and_log_sum_exp(tmp_path: Path) -> None:
    forward = ("def attend(query, key, value, *, return_lse=False):\n    output = query[..., :4] + 1\n"
               "    return (output, query[..., 0] * 5) if return_lse else output\n")
    body = "    assert lse.shape == query.shape[:3] and (lse == query[..., 0] * 5).all()\n"
    both = backward("{'query': output, 'key': key * 0, 'value': value * 0}", "*, output=None, lse=None", body)
    made = problem()
    np.testing.assert_array_equal(mine(tmp_path, both, forward=forward).answer(made).by_input["query"], made.query + 1)


def test_a_backward_pass_without_a_keyword_is_not_asked_about_it(tmp_path: Path) -> None:
    subject = mine(tmp_path, backward(parameters="*, scale=None"))
    assert subject.refuses(problem("causal")) == "attend_backward takes no causal"
    assert subject.refuses(problem()) == ""


@pytest.mark.parametrize(("returns", "said"), [
    ("(query, key, value)", "The backward pass returned a tuple of 3 where a mapping from the names of the inputs "
                            "(query, key, value) to their gradients is expected."),
    ("{'query': query, 'value': value}", "The subject returned None where the gradient of the key should be: an array "
                                         "of shape (2, 2, 7, 4)"),
    ("{'query': query, 'key': key, 'value': value[:, :1]}", "of shape (2, 1, 7, 4) and dtype float32 where the gradient"
                                                            " of the value should be"),
])
def test_what_is_no_mapping_of_gradients_is_told(tmp_path: Path, returns: str, said: str) -> None:
    with pytest.raises(UnusableAnswer) as raised:
        mine(tmp_path, backward(returns)).answer(problem())
    assert said in raised.value.sentence


@pytest.mark.parametrize(("source", "said"), [
    ("def attend_backward(grad_output, query, key, value):\n    return {}\n",
     "attend_backward takes (grad_output, query, key, value); the first four should be query, key, value and "
     "grad_output, given by position"),
    ("def attend_backward(query, key, value, grad_output, lse):\n    return {}\n",
     "attend_backward takes 'lse' without a default, so it cannot be called without. Give a default"),
])
def test_a_backward_pass_that_cannot_be_called_is_told(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(TargetError) as raised:
        mine(tmp_path, source)
    assert said in str(raised.value)


@pytest.mark.parametrize("source", ["", "attend_backward = 3\n", "def attend_backward(ctx, grads):\n    return ctx\n"])
def test_what_has_no_such_parameter_is_no_backward_pass(tmp_path: Path, source: str) -> None:
    subject = mine(tmp_path, source)
    assert subject.backward is None
    assert subject.lacks(frozenset({"grad_output"})) == f"{subject.id} has no backward pass"


def test_in_a_process_of_its_own_the_pair_answers_alike(tmp_path: Path) -> None:
    path = tmp_path / "pair.py"
    path.write_text(HEAD + FORWARD + backward("{'query': query * 2, 'key': key * 3, 'value': value}"), encoding="utf-8")
    plan = Plan((f"{path}:attend",))
    made = problem()
    answer = load_target(f"{path}:attend", plan.surroundings({})).answer(made)
    np.testing.assert_array_equal(answer.by_input["key"], made.key * 3)


def test_a_manifest_names_a_backward_pass_of_another_name(tmp_path: Path) -> None:
    folder = tmp_path / "gradlib"
    folder.mkdir()
    (folder / "both.py").write_text(HEAD + FORWARD + backward().replace("attend_backward", "pulled"), encoding="utf-8")
    (folder / "manifest.yaml").write_text(
        "library: Mine\nsubjects:\n  - {id: pair, title: Mine, function: 'both:attend', backward: pulled,\n"
        "     backward_precision: {bfloat16: {partial: 32, reason: written down}}}\n", encoding="utf-8")
    assert next(read_manifest(folder)).backward == "pulled"
    subject = load_target("gradlib/pair", folders=[tmp_path])
    assert subject.backward is not None
    assert subject.backward.name == "pulled"
    assert Evaluator(subject, DType.BFLOAT16).backward_precision.partial == 32


def test_what_a_manifest_names_as_a_backward_pass_takes_a_gradient(tmp_path: Path) -> None:
    folder = tmp_path / "gradnone"
    folder.mkdir()
    none = "def pulled(query, key, value, grad):\n    pass\n"
    (folder / "both.py").write_text(HEAD + FORWARD + none, encoding="utf-8")
    (folder / "manifest.yaml").write_text(
        "library: Mine\nsubjects:\n  - {id: pair, title: Mine, function: 'both:attend', backward: pulled}\n",
        encoding="utf-8")
    with pytest.raises(TargetError, match=r"both\.py:\d+: the manifest names pulled as a backward pass, but it has no "
                                          r"parameter 'grad_output': attend_backward\(query, "):
        load_target("gradnone/pair", folders=[tmp_path])


def test_a_manifest_says_what_makes_no_sense_of_a_backward_pass(tmp_path: Path) -> None:
    folder = tmp_path / "gradwrong"
    folder.mkdir()
    (folder / "both.py").write_text(HEAD + FORWARD + backward(), encoding="utf-8")
    (folder / "manifest.yaml").write_text(
        "library: Mine\nsubjects:\n  - {id: pair, title: Mine, function: 'both:attend',\n"
        "     backward_precision: {bfloat16: {partly: 32, reason: written down}}}\n", encoding="utf-8")
    with pytest.raises(ManifestError, match="'partly' is not a known word of a backward precision class"):
        load_target("gradwrong/pair", folders=[tmp_path])


# The frameworks


def test_pytorch_is_asked_for_gradients() -> None:
    pytest.importorskip("torch")
    subject = load_target("torch/sdpa").with_gradients
    made = problem("mask", DType.FLOAT64)
    evaluator = Evaluator(subject, DType.FLOAT64)
    found = expect_gradients(made, grad(made), evaluator.precision, evaluator.backward_precision,
                             conventions=evaluator.conventions)
    answer = subject.answer(made)
    for name, gradient in found.items():
        np.testing.assert_allclose(answer.by_input[name], gradient.truth.astype(float), rtol=1e-12, atol=1e-14)


def test_jax_is_asked_for_gradients() -> None:
    pytest.importorskip("jax")
    subject = load_target("jax/attention").with_gradients
    made = problem("bias", sizes="B1,H2,Hkv2,T5,S7,D4,Dv4")
    evaluator = Evaluator(subject, DType.FLOAT32)
    found = expect_gradients(made, grad(made), evaluator.precision, evaluator.backward_precision,
                             conventions=evaluator.conventions)
    answer = subject.answer(made)
    assert set(answer.by_input) == {"query", "key", "value", "bias"}
    for name, gradient in found.items():
        np.testing.assert_allclose(answer.by_input[name], gradient.truth, rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
def test_what_one_program_cannot_do_is_asked_operation_by_operation() -> None:
    """On CPU, it compiles no product of float16 that is summed in float32."""
    pytest.importorskip("jax")
    answer = load_target("jax/dot_product_attention").with_gradients.answer(problem(dtype=DType.FLOAT16))
    assert {name: gradient.dtype.name for name, gradient in answer.by_input.items()} == dict.fromkeys(
        ("query", "key", "value"), "float16")


def test_an_input_that_has_no_part_in_the_output_has_zeros(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "partial.py"
    path.write_text("def attend(query, key, value):\n    return query[..., :4] * 2\nattend.lift = 'torch'\n",
                    encoding="utf-8")
    answer = load_target(f"{path}:attend").with_gradients.answer(problem())
    np.testing.assert_array_equal(answer.by_input["query"], 2 * grad(problem()))
    assert not answer.by_input["value"].any()


@pytest.mark.nightly
def test_an_output_without_gradient_is_nothing_to_judge(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "detached.py"
    path.write_text("def attend(query, key, value):\n    return (query[..., :4] * 2).detach()\nattend.lift = 'torch'\n",
                    encoding="utf-8")
    with pytest.raises(NotDifferentiated, match="its output requires no gradient"):
        load_target(f"{path}:attend").with_gradients.answer(problem())
    found = verdicts(f"{path}:attend", "gradients.of_query")
    assert found == {"gradients.of_query": Verdict.INAPPLICABLE}


@pytest.mark.nightly
def test_a_run_that_names_gradients_asks_frameworks_for_all_of_them() -> None:
    pytest.importorskip("torch")
    assert load_target("torch/sdpa").lacks(frozenset({"grad_output"})) == \
        "gradients of torch/sdpa are judged with --profile +gradients"
    engine = Engine(Plan(("torch/sdpa",), profiles=("gradients",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    assert {item.clause.partition(".")[0] for item in engine.items()} == {"gradients"}
    assert engine.try_item(next(iter(engine.items()))).verdict is Verdict.HELD


# Who is judged how


AUTOGRAD = """
import torch
class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(query, key, value, weights)
        return weights @ value
    @staticmethod
    def backward(ctx, grad):
        query, key, value, weights = ctx.saved_tensors
        inner = grad @ value.mT
        logits = weights * (inner - (inner * weights).sum(-1, keepdim=True)) / query.shape[-1] ** 0.5
        {ends}
def attend(query, key, value):
    return Attend.apply(query, key, value)
attend.lift = "torch"
"""
RIGHT = "return logits @ key, logits.mT @ query, weights.mT @ grad"


@pytest.mark.family(1)
@pytest.mark.parametrize(("ends", "verdict"), [
    (RIGHT, Verdict.HELD), (RIGHT.replace("query, w", "query * 1.01, w"), Verdict.VIOLATED),
    ("raise NameError('oops')", Verdict.ERRORED)], ids=["right", "wrong", "raising"])
def test_every_run_judges_what_a_framework_differentiates(tmp_path: Path, ends: str, verdict: Verdict) -> None:
    pytest.importorskip("torch")
    path = tmp_path / f"own{next(COUNTER)}.py"
    path.write_text(AUTOGRAD.format(ends=ends), encoding="utf-8")
    engine = Engine(Plan((f"{path}:attend",), effort=Effort.GLANCE))
    items = {(item.clause, item.dtype): item for item in engine.items()}
    judged = engine.try_item(items["gradients.of_key", "float32"])
    assert judged.verdict is verdict, judged.reason
    elsewhere = engine.try_item(items["gradients.of_key", "float16"])
    assert elsewhere.reason == GRADIENTS_ONCE.format("float32")


@pytest.mark.nightly
def test_a_function_whose_framework_has_no_derivative_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = AUTOGRAD.format(ends=RIGHT).replace("def backward", "def other")
    path = tmp_path / f"own{next(COUNTER)}.py"
    path.write_text(text, encoding="utf-8")
    engine = Engine(Plan((f"{path}:attend",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    assert "must implement either the backward" in engine.find_refused(f"{path}:attend")["grad_output"]
    [item] = [item for item in engine.items() if item.clause == "gradients.of_key"]
    assert engine.try_item(item).verdict is Verdict.INAPPLICABLE


@pytest.mark.parametrize(("profiles", "narrowed", "whole"), [
    ((), False, False), (("gradients",), True, True), (("+gradients",), False, True),
    (("causal", "+gradients"), True, True)])
def test_a_profile_behind_a_plus_sign_adds_and_another_narrows(
    profiles: tuple[str, ...], narrowed: bool, whole: bool,
) -> None:
    plan = Plan(("mine:attend",), profiles=profiles, dtypes=(DType.FLOAT32,))
    profiles_put = {clause.profile for clause in Engine(plan).clauses}
    assert ("bias" not in profiles_put) is narrowed
    assert "gradients" in profiles_put
    assert samples_gradients(plan, load_target("numpy/attention")) is not whole


def test_a_pair_is_judged_by_plain_clauses_of_gradients(tmp_path: Path) -> None:
    found = verdicts("numpy/training", "gradients.of_bias", "gradients.of_sinks", "attention.definition")
    assert found == {"gradients.of_bias": Verdict.HELD, "gradients.of_sinks": Verdict.INAPPLICABLE,
                     "attention.definition": Verdict.HELD}
    assert mine(tmp_path, backward()).lacks(frozenset({"grad_output"})) == ""


def untaken(name: str) -> set[str]:
    """The clauses about a layer's parameters, and about what servers hand over, which formulations that drop weights do
    not take.
    """
    return {*OF_LAYERS, *({"gradients.of_sinks", "gradients.key_lengths"} if "dropout" in name else ())}


@pytest.mark.family(1)
@pytest.mark.parametrize("name", SOUND_BACKWARD)
def test_sound_backward_passes_hold_every_clause(name: str) -> None:
    for dtype in (DType.FLOAT32, DType.BFLOAT16):
        found = verdicts(f"sound/{name}", "gradients.*", dtype=dtype)
        assert {clause for clause, verdict in found.items() if verdict is not Verdict.HELD} == untaken(name), found


@pytest.mark.family(30)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_gradients_leaves_the_output_right(fault: str) -> None:
    made = problem("mask causal", next(dtype for dtype in DType if dtype not in CATALOGUE[fault].equivalents))
    answers = [fault_subject(f"fault/{fault}").answer(each) for each in (made, made.but(grad_output=None))]
    np.testing.assert_array_equal(answers[0].output, answers[1].output)


def test_a_rows_convention_settles_whether_it_contributes() -> None:
    made = problem("mask")
    assert rows_without_gradient(made, {"hidden_row": "zeros"}).all()
    assert not rows_without_gradient(made, {"hidden_row": "nan"}).any()
    assert not rows_without_gradient(made, {"hidden_row": "zeros", "hidden_row.mask": "uniform"}).any()
    both, zeros_of_mask = problem("mask causal"), {"hidden_row.mask": "zeros", "hidden_row.causal": "uniform"}
    assert rows_without_gradient(made, zeros_of_mask).all()
    assert not rows_without_gradient(both, zeros_of_mask).any()
    short = made.but(query_lengths=np.array([2, 5], np.int32))
    np.testing.assert_array_equal(rows_without_gradient(short, {"hidden_row": "zeros"})[0],
                                  [True, True, False, False, False])
    assert rows_without_gradient(short, {"hidden_row": "zeros", "beyond_length": "zeros"}).all()


def test_a_bias_that_is_declared_a_constant_is_not_differentiated(tmp_path: Path) -> None:
    forward = ("def attend(query, key, value, *, bias=None):\n    return np.resize(query, (*query.shape[:3], "
               "value.shape[3]))\nattend.constant_bias = True\n")
    zeros = backward(parameters="*, bias=None")
    assert set(mine(tmp_path, zeros, forward=forward).answer(problem("bias")).by_input) == {"query", "key", "value"}
    engine = Engine(Plan((f"{tmp_path}/mine{next(COUNTER) - 1}.py:attend",), clauses=("gradients.of_bias",),
                         dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    outcome = engine.try_item(next(iter(engine.items())))
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason == "a bias is a constant to it, without a gradient"


# The arrays


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("pattern", GRAD_PATTERNS)
def test_patterns_of_an_outputs_gradient_fit_every_dtype(pattern: str, dtype: DType) -> None:
    made = grad(problem(dtype=dtype, pattern=pattern))
    assert (made.shape, made.dtype) == ((2, 4, 5, 4), problem(dtype=dtype).query.dtype)
    assert np.isfinite(made.astype(float)).all()


def test_patterns_of_an_outputs_gradient_are_what_they_are_called() -> None:
    made = {pattern: keyword_array("grad_output", pattern, 1, Sizes(2, 3, 3, 5, 5, 4, 6)).astype(float)
            for pattern in GRAD_PATTERNS}
    assert (made["ones"] == 1).all()
    assert not made["zero"].any()
    np.testing.assert_array_equal((made["one_entry"] != 0).sum(axis=(2, 3)), 1)
    np.testing.assert_array_equal((made["one_row"] != 0).any(axis=3).sum(axis=2), 1)
    assert ((made["of_one_sign"] >= 0.5) & (made["of_one_sign"] <= 1)).all()
    assert (made["one_large"][:, :, 0] == 64).all()
    assert (made["one_large"][:, :, 1:] == 2**-6).all()
    np.testing.assert_array_equal(made["large"], made["normal"] * 64)
    np.testing.assert_array_equal(made["tiny"], made["normal"] / 1024)
    assert np.abs(made["integers"]).max() == 2
    assert not {"zero", "ones", "large"} & set(USUAL_GRADS)


def test_an_expanded_gradient_has_one_number_in_memory() -> None:
    expanded = grad(gradients.expand_grad(Posed((problem(pattern="ones"),))).one)
    assert expanded.strides == (0, 0, 0, 0)
    np.testing.assert_array_equal(expanded, 1)


@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_a_gradient_is_laid_out_otherwise_and_stays_the_same(layout: str) -> None:
    laid = grad(gradients.lay_out_grad(Posed((problem(),)), layout=layout).one)  # type: ignore[arg-type]  # by name
    assert not laid.flags.c_contiguous
    np.testing.assert_array_equal(laid, problem().grad_output)


@pytest.mark.parametrize(("over", "shape"), [("batch", (1, 4, 5, 7)), ("heads", (2, 1, 5, 7)),
                                             ("queries", (2, 4, 1, 7))])
def test_a_bias_is_shared_over_an_axis(over: str, shape: tuple[int, ...]) -> None:
    shared = gradients.share_bias(Posed((problem("bias"),)), over=over).one.bias  # type: ignore[arg-type]  # by name
    assert shared is not None
    assert shared.shape == shape


@pytest.mark.parametrize(("transform", "why"), [
    (gradients.expand_grad, "the entries of the output's gradient are not all one number"),
    (lambda posed: gradients.share_bias(posed, over="heads"), "there is no bias"),
    (lambda posed: gradients.lay_out_grad(gradients.forget_grad(posed), layout="strided"),
     "the output has no gradient"),
    (lambda posed: gradients.lay_out_grad(posed, layout="transposed"), "an array of these sizes has one layout"),
])
def test_a_transform_of_gradients_that_says_nothing_tells_why(transform: object, why: str) -> None:
    assert callable(transform)
    with pytest.raises(NoClaim, match=why):
        transform(Posed((problem(sizes="B2,H1,Hkv1,T5,S7,D4,Dv4"),)))


def test_a_gradient_reaches_the_backward_pass_as_it_lies(tmp_path: Path) -> None:
    body = "    assert grad_output.strides == (0, 0, 0, 0), grad_output.strides\n"
    subject = mine(tmp_path, backward(body=body))
    assert subject.answer(gradients.expand_grad(Posed((problem(pattern="ones"),))).one).by_input


def test_the_batch_is_parted_between_two_gradients() -> None:
    whole = problem()
    first, others = (gradients.grad_of(Posed((whole,), conventions={}), entries=which).one.grad_output
                     for which in ("first", "others"))
    assert first is not None
    assert others is not None
    assert whole.grad_output is not None
    assert np.array_equal(first + others, whole.grad_output)
    assert not first[1:].any()
    assert not others[:1].any()
    alone = problem(sizes="B1,H4,Hkv2,T5,S7,D4,Dv4")
    with pytest.raises(NoClaim, match="the batch has one entry, or the output has no gradient"):
        gradients.grad_of(Posed((alone,), conventions={}), entries="first")


def test_a_loss_scale_is_exact_or_nothing_is_said() -> None:
    given = problem(dtype=DType.FLOAT16)
    scaled = gradients.scale_grad(Posed((given,), conventions={}), by=256.0).one.grad_output
    assert scaled is not None
    assert given.grad_output is not None
    assert np.array_equal(scaled, given.grad_output * np.float16(256))
    large = problem(dtype=DType.FLOAT16, pattern="large")
    with pytest.raises(NoClaim, match="the output's gradient does not fit its dtype once it is scaled"):
        gradients.scale_grad(Posed((large,), conventions={}), by=2.0**15)


OF_FRAMEWORK = """
import torch

class Attend(torch.autograd.Function):
    @staticmethod
    def forward(context, query, key, value):
        context.save_for_backward(query, key, value)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    @staticmethod
    def backward(context, grad):
        return tuple(each * 0 + 1 for each in context.saved_tensors)

def attend(query, key, value):
    return Attend.apply(query, key, value)
"""


@pytest.mark.nightly
def test_a_frameworks_gradients_are_compared_with_no_fault(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "wrong.py").write_text(OF_FRAMEWORK)
    engine = Engine(Plan((f"{tmp_path / 'wrong.py'}:attend",), clauses=("gradients.of_value",), lift="torch",
                         effort=Effort.QUICK, dtypes=(DType.FLOAT32,)))
    outcome = engine.try_item(engine.items()[0])
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert outcome.evidence.like == ()
    assert outcome.evidence.located == "the backward pass is wrong; the forward pass is right on small test inputs"
