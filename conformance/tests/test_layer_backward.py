"""A layer's own backward pass: found beside it, judged by clauses on inputs and on parameters, told what it lacks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.diagnosis.arithmetic import ArithmeticExplainer
from attnspec.engine.engine import Engine
from attnspec.record.outcome import Outcome
from attnspec.spec.load import load_spec
from attnspec.subjects.registry import load_target
from attnspec.subjects.subject import Subject, UnusableAnswer
from attnspec.trials.compile import compile_spec
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Violated
from attnspec.trials.trial import Trial
from helpers.commands import Cli
from helpers.gradients import problem, verdicts

CHECKS = compile_spec(load_spec())
COUNTER = itertools.count()
SQUARE = "B3,H2,Hkv2,T5,S5,D4,Dv4"
PARAMETERS = tuple(f"{kind}_{name}" for kind in "wb" for name in ("query", "key", "value", "out"))
CLAUSES = ("gradients.of_input_projections", "gradients.projections_apart", "gradients.of_output_projection",
           "gradients.of_projection_biases", "gradients.of_output_bias")

LAYER = """import numpy as np

PARTS = ("query", "key", "value")


def layer(query, key, value, *, params, heads, mask=None, bias=None):
    _, w, (q, k, v) = taken(query, key, value, params, heads)
    return (merge(weights(q, k, mask, bias) @ v) @ w["w_out"] + w["b_out"]).astype(query.dtype)


def layer_backward(query, key, value, grad_output, *, params, heads, mask=None, bias=None, output=None):
    inputs, w, (q, k, v) = taken(query, key, value, params, heads)
    p, grad = weights(q, k, mask, bias), grad_output.astype(q.dtype)
    d_heads = split(grad @ w["w_out"].T, heads)
    d_scores = p * (d_heads @ turned(v) - (d_heads * (p @ v)).sum(axis=-1, keepdims=True))
    scaled = d_scores / q.shape[-1] ** 0.5
    back = dict(zip(PARTS, map(merge, (scaled @ k, turned(scaled) @ q, turned(p) @ d_heads))))
    found = {"w_out": outer(merge(p @ v), grad), "b_out": grad.sum(axis=(0, 1))}
    if bias is not None:
        found["bias"] = d_scores
    for name, x in zip(PARTS, inputs):
        found[name] = back[name] @ w["w_" + name].T
        found["w_" + name] = outer(x, back[name])
        found["b_" + name] = back[name].sum(axis=(0, 1))
    return {name: each.astype(query.dtype) for name, each in found.items()}


def taken(query, key, value, params, heads):
    wide = np.float64 if query.dtype == np.float64 else np.float32
    inputs = [each.astype(wide) for each in (query, key, value)]
    w = {"b_out": 0, **{"b_" + name: 0 for name in PARTS}, **{name: each.astype(wide) for name, each in params.items()}}
    return inputs, w, [split(x @ w["w_" + name] + w["b_" + name], heads) for name, x in zip(PARTS, inputs)]


def weights(q, k, mask, bias):
    scores = q @ turned(k) / q.shape[-1] ** 0.5
    scores = scores if bias is None else scores + bias.astype(scores.dtype)
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    p = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), np.finfo(scores.dtype).min))
    return p / np.maximum(p.sum(axis=-1, keepdims=True), np.finfo(p.dtype).tiny)


def outer(x, grad):
    return np.einsum("bli,blo->io", x, grad)


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def merge(x):
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def turned(x):
    return x.swapaxes(-1, -2)


layer.grouped = False
layer.conventions = {"hidden_row": "zeros"}
"""

RETURNED = "    return {name: each.astype(query.dtype) for name, each in found.items()}\n"

OF_ONE_INPUT = """

def shared(query, key, value, *, params, heads):
    return layer(query, query, query, params=params, heads=heads)


def shared_backward(query, key, value, grad_output, *, params, heads):
    found = layer_backward(query, query, query, grad_output, params=params, heads=heads)
    found["query"] = found["query"] + found.pop("key") + found.pop("value")
    return {name: each for name, each in found.items() if name in PARTS or name in params}


shared.self_attention_only, shared.ties_model_width = True, True
shared.grouped, shared.has_biases = False, False
"""


def mine(folder: Path, *edits: tuple[str, str], more: str = "") -> str:
    """A file of the layer and its backward pass, in which texts are replaced by others."""
    source = LAYER
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    path = folder / f"layers{next(COUNTER)}.py"
    path.write_text(source + more, encoding="utf-8")
    return f"{path}:{'shared' if more else 'layer'}"


def judged(target: str, clause: str = "gradients.*", dtype: DType = DType.FLOAT32,
           effort: Effort = Effort.GLANCE) -> list[Outcome]:
    engine = Engine(Plan((target,), clauses=(clause,), dtypes=(dtype,), effort=effort))
    return [engine.try_item(item) for item in engine.items()]


def asked_for_parameters(subject: Subject, more: str = "") -> None:
    """Have the subject answer with gradients of its parameters."""
    subject.answer(problem(more, sizes=SQUARE).but(of_parameters=True))


# How it is found and called


def test_a_layers_backward_pass_is_found_by_its_name(tmp_path: Path) -> None:
    subject = load_target(mine(tmp_path))
    assert subject.backward is not None
    assert (subject.backward.name, set(subject.backward.wants)) == ("layer_backward", {"output"})
    assert "grad_output" in subject.declaration.keywords
    assert subject.backward.keywords >= {"mask", "bias", "params", "heads"}


def test_gradients_come_by_the_names_of_inputs_and_parameters(tmp_path: Path) -> None:
    subject, made = load_target(mine(tmp_path)), problem("bias", sizes=SQUARE)
    inputs = {"query", "key", "value", "bias"}
    assert set(subject.answer(made).by_input) == inputs
    assert set(subject.answer(made.but(of_parameters=True)).by_input) == \
        inputs | {f"params.{name}" for name in PARAMETERS}


def test_a_layers_backward_pass_is_handed_its_output(tmp_path: Path) -> None:
    checks = ("    p, grad =", "    given = layer(query, key, value, params=params, heads=heads)\n"
                               "    assert np.array_equal(output, given)\n    p, grad =")
    asked_for_parameters(load_target(mine(tmp_path, checks)))


def test_a_keyword_that_a_layers_backward_pass_lacks_is_not_asked(tmp_path: Path) -> None:
    subject = load_target(mine(tmp_path,
                                ("heads, mask=None, bias=None, output=None):", "heads, bias=None, output=None):\n"
                                                                                "    mask = None")))
    assert subject.refuses(problem("mask", sizes=SQUARE)) == "layer_backward takes no mask"
    assert subject.refuses(problem("bias", sizes=SQUARE)) == ""


def test_a_mask_that_travels_as_a_bias_reaches_the_backward_pass(tmp_path: Path) -> None:
    edits = (("heads, mask=None, bias=None, output=None):", "heads, bias=None):\n    mask = None"),
             ("layer.grouped = False", "layer.grouped, layer.bias_is_mask = False, True"))
    target = mine(tmp_path, *edits)
    assert load_target(target).refuses(problem("mask", sizes=SQUARE)) == ""
    clauses = ("gradients.hidden_keys", "gradients.hidden_rows", "gradients.of_bias")
    assert verdicts(target, *clauses) == dict.fromkeys(clauses, Verdict.HELD)


def test_a_manifest_names_a_layers_backward_pass(tmp_path: Path) -> None:
    folder = tmp_path / "layerlib"
    folder.mkdir()
    (folder / "both.py").write_text(LAYER.replace("layer_backward", "pulled"), encoding="utf-8")
    (folder / "manifest.yaml").write_text(
        "library: Mine\nsubjects:\n  - {id: pair, title: Mine, function: 'both:layer', kind: layer, backward: pulled,\n"
        "     limits: {grouped: false}, conventions: {hidden_row: zeros}}\n", encoding="utf-8")
    subject = load_target("layerlib/pair", folders=[tmp_path])
    assert subject.backward is not None
    assert subject.backward.name == "pulled"
    asked_for_parameters(subject)


def test_a_layers_own_backward_pass_may_take_tensors(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "tensors.py"
    path.write_text("import torch\ndef layer(query, key, value, *, params, heads):\n    return query * 1\n"
                    "def layer_backward(query, key, value, grad_output, *, params, heads):\n"
                    "    assert isinstance(params['w_out'], torch.Tensor)\n"
                    "    return {'query': query * 2, 'key': key, 'value': value,\n"
                    "            **{name: each * 3 for name, each in params.items()}}\n"
                    "layer.lift = 'torch'\n", encoding="utf-8")
    made = problem(sizes=SQUARE)
    answer = load_target(f"{path}:layer").answer(made.but(of_parameters=True))
    np.testing.assert_array_equal(answer.by_input["params.w_out"], 3 * np.eye(8, dtype=np.float32))
    np.testing.assert_array_equal(answer.by_input["query"], made.query * 2)


# Right ones and wrong ones


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", DType, ids=str)
def test_a_right_backward_pass_of_a_layer_holds(tmp_path: Path, dtype: DType) -> None:
    found = judged(mine(tmp_path), dtype=dtype, effort=Effort.QUICK)
    held = {each.clause for each in found if each.verdict is Verdict.HELD}
    assert {*CLAUSES, "gradients.of_query", "gradients.of_key", "gradients.of_value", "gradients.of_bias",
            "gradients.hidden_rows", "gradients.dtype", "gradients.leave_the_inputs"} <= held
    assert {each.verdict for each in found} == {Verdict.HELD, Verdict.INAPPLICABLE}


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType, ids=str)
def test_the_layer_that_is_written_out_in_numpy_holds(dtype: DType) -> None:
    clauses = ("grouped_heads", "causal", "window", "through_softcap", "of_bias_that_is_broadcast",
               *(clause.partition(".")[2] for clause in CLAUSES))
    names = tuple(f"gradients.{name}" for name in clauses)
    assert verdicts("numpy/training_layer", *names, dtype=dtype) == dict.fromkeys(names, Verdict.HELD)


WRONG = {
    "w_out's gradient is transposed": (
        'outer(merge(p @ v), grad), "b_out"', 'outer(grad, merge(p @ v)), "b_out"', "gradients.of_output_projection"),
    "biases are not summed over the batch": (
        "back[name].sum(axis=(0, 1))", "back[name][0].sum(axis=0)", "gradients.of_projection_biases"),
    "b_out is not summed over the batch": (
        "grad.sum(axis=(0, 1))", "grad[0].sum(axis=0)", "gradients.of_output_bias"),
    "w_key has the gradient of w_query": (
        'found["w_" + name] = outer(x, back[name])',
        'found["w_" + name] = outer(x, back["query" if name == "key" and q.shape == k.shape else name])',
        "gradients.projections_apart"),
    "w_value's gradient is formed of the key's input": (
        'found["w_" + name] = outer(x, back[name])',
        'found["w_" + name] = outer(inputs[1] if name == "value" else x, back[name])',
        "gradients.of_input_projections"),
    "the gradient of the input is not led through w_value": (
        'back[name] @ w["w_" + name].T',
        '(back[name] @ w["w_" + name].T if name != "value" else np.zeros_like(x))', "gradients.of_value"),
    "the bias has the gradient of the scaled logits": ('found["bias"] = d_scores', 'found["bias"] = scaled',
                                                       "gradients.of_bias"),
}


@pytest.mark.family(1)
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_one_is_convicted_by_the_clause_that_speaks_of_it(tmp_path: Path, mistake: str) -> None:
    old, new, clause = WRONG[mistake]
    [outcome] = judged(mine(tmp_path, (old, new)), clause)
    assert outcome.verdict is Verdict.VIOLATED
    assert "against the definition" in outcome.reason


def test_a_wrong_gradient_of_a_parameter_leaves_those_of_inputs(tmp_path: Path) -> None:
    old, new, clause = WRONG["b_out is not summed over the batch"]
    found = verdicts(mine(tmp_path, (old, new)), "gradients.*")
    assert [name for name, verdict in found.items() if verdict is Verdict.VIOLATED] == [clause]


def test_one_input_has_the_gradient_of_all_that_it_serves_as(tmp_path: Path) -> None:
    found = judged(mine(tmp_path, more=OF_ONE_INPUT))
    assert {each.verdict for each in found} == {Verdict.HELD, Verdict.INAPPLICABLE}
    assert {each.clause for each in found if each.verdict is Verdict.HELD} >= \
        {"gradients.of_query", "gradients.of_key", "gradients.of_value", *CLAUSES[:3]}


@pytest.mark.nightly
def test_one_inputs_gradient_that_is_not_summed_is_wrong(tmp_path: Path) -> None:
    summed = '    found["query"] = found["query"] + found.pop("key") + found.pop("value")\n'
    assert OF_ONE_INPUT.count(summed) == 1
    target = mine(tmp_path, more=OF_ONE_INPUT.replace(summed, ""))
    found = {name: judged(target, f"gradients.of_{name}", effort=Effort.QUICK)[0] for name in ("query", "key", "value")}
    assert {name: each.verdict for name, each in found.items()} == {
        "query": Verdict.HELD, "key": Verdict.VIOLATED, "value": Verdict.VIOLATED}


# What is told


@pytest.mark.parametrize(("returns", "said"), [
    ("    del found['w_key']\n", "The subject returned None where the gradient of w_key should be: an array of shape "
                                 "(8, 8)"),
    ("    found['b_out'] = grad.sum(axis=0)\n", "of shape (5, 8) and dtype float32 where the gradient of b_out should "
                                                "be: an array of shape (8,)"),
    ("    found['weight_key'] = found.pop('w_key')\n",
     "weight_key where a mapping from the names of the inputs and parameters (query, key, value, w_query, w_key, "
     "w_value, w_out, b_query, b_key, b_value, b_out) to their gradients is expected"),
    ("    return {**{name: found.pop(name) for name in PARTS}, 'params': found}\n",
     "The backward pass returned a mapping of query, key, value, params where a mapping from the names of"),
])
def test_gradients_of_parameters_that_are_not_as_expected_are_told(tmp_path: Path, returns: str, said: str) -> None:
    subject = load_target(mine(tmp_path, (RETURNED, returns + RETURNED)))
    with pytest.raises(UnusableAnswer) as raised:
        asked_for_parameters(subject)
    assert said in raised.value.sentence
    assert raised.value.sentence.endswith(f". See layer_backward in {subject.source.file}:11.")


def test_a_gradient_without_its_name_is_looked_for_in_functions_too(tmp_path: Path) -> None:
    path = tmp_path / "function.py"
    path.write_text("def attend(query, key, value):\n    return query[..., :value.shape[-1]]\n"
                    "def attend_backward(query, key, value, grad_output):\n"
                    "    return {'query': query, 'keys': key, 'value': value}\n", encoding="utf-8")
    with pytest.raises(UnusableAnswer, match="a mapping of query, keys, value where a mapping from the names of the "
                                             r"inputs \(query, key, value\) to .* See attend_backward in .*:3"):
        load_target(f"{path}:attend").answer(problem())


def test_parameters_gradients_of_another_dtype_are_told(tmp_path: Path) -> None:
    wider = "    return {name: each if name == 'w_key' else each.astype(query.dtype) for name, each in found.items()}\n"
    [outcome] = judged(mine(tmp_path, (RETURNED, wider)), "gradients.dtype", DType.FLOAT16)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason == "gradients that have not the dtype of their input: w_key: float32"


@pytest.mark.nightly
def test_a_layer_that_has_none_for_its_parameters_is_not_asked(tmp_path: Path) -> None:
    returns = "    found = {name: each for name, each in found.items() if name not in params}\n"
    found = {each.clause: each for each in judged(mine(tmp_path, (RETURNED, returns + RETURNED)))}
    assert {(found[clause].verdict, found[clause].reason) for clause in CLAUSES} == \
        {(Verdict.INAPPLICABLE, "its backward pass returns no gradients of parameters")}
    assert {found[name].verdict for name in ("gradients.of_query", "gradients.dtype")} == {Verdict.HELD}


def test_of_one_input_gradients_by_three_names_are_no_unknown_ones(tmp_path: Path) -> None:
    returned = "if name in PARTS or name in params}"
    more = OF_ONE_INPUT.replace('.pop("key")', '["key"]').replace(returned, "if name in PARTS}")
    [outcome] = judged(mine(tmp_path, more=more), CLAUSES[0])
    assert (outcome.verdict, outcome.reason) == \
        (Verdict.INAPPLICABLE, "its backward pass returns no gradients of parameters")


def test_a_backward_pass_that_writes_to_a_parameter_is_told(tmp_path: Path) -> None:
    [outcome] = judged(mine(tmp_path, (RETURNED, '    params["w_key"][...] = 0\n' + RETURNED)),
                       "gradients.leave_the_inputs")
    assert (outcome.verdict, outcome.reason) == (Verdict.VIOLATED, "the call changed params.w_key")


@pytest.mark.parametrize(("parameters", "said"), [
    ("query, key, value, grad_output, *, mask=None", "takes no 'heads' and no 'params', which a layer's backward pass "
     "is given: layer_backward(query, key, value, grad_output, *, params, heads, ..., output=None)."),
    ("query, key, value, *, params, heads, grad_output", "the first four should be query, key, value and grad_output, "
     "given by position: layer_backward("),
    ("query, key, value, grad_output, *, params, heads, mask", "takes 'mask' without a default, so it cannot be called "
     "without. Give a default: layer_backward("),
    ("query, key, value, grad_output, *, params, heads, maks=None", "takes 'maks', which is not a known keyword. Did "
     "you mean 'mask'? If another thing is meant, give it another name."),
])
def test_a_layers_backward_pass_that_cannot_be_called_is_told(tmp_path: Path, parameters: str, said: str) -> None:
    path = tmp_path / f"wrong{next(COUNTER)}.py"
    path.write_text("def layer(query, key, value, *, params, heads, mask=None):\n    return query\n"
                    f"def layer_backward({parameters}):\n    return {{}}\n", encoding="utf-8")
    with pytest.raises(TargetError) as raised:
        load_target(f"{path}:layer")
    assert f"{path.name}:3: layer_backward takes " in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.nightly
def test_a_check_judges_a_layer_and_its_backward_pass(cli: Cli, tmp_path: Path) -> None:
    words = ("--clause", "gradients.of_*", "--dtype", "float32", "--effort", "glance", "-n", "1")
    code, out, _ = cli("check", mine(tmp_path), *words)
    assert code == 0
    assert "Conforms." in out
    old, new, clause = WRONG["w_out's gradient is transposed"]
    code, out, _ = cli("check", mine(tmp_path, (old, new)), *words)
    assert code == 1
    assert f"{clause} (spec/gradients.yaml" in out


STORED = """def stored(grad):
    total = grad[0, 0] * 0
    for row in grad.reshape(-1, len(total)):
        total = total + row
    return total


def outer(x, grad):
"""
SUMMED_STEP_BY_STEP = (
    ('"b_out": grad.sum(axis=(0, 1))', '"b_out": stored(grad_output)'), ("def outer(x, grad):\n", STORED))


def test_sums_of_biases_in_half_are_offered_as_such_alone(tmp_path: Path) -> None:
    check = CHECKS["gradients.of_output_bias"]
    subject = load_target(mine(tmp_path, *SUMMED_STEP_BY_STEP)).with_gradients
    trial = Trial(check, Evaluator(subject, DType.FLOAT16), Effort.QUICK, seed_of(0, check.domain), lambda _: None,
                  shrinks=False, cases=5)
    tally = trial.hold()
    assert tally.failing_recipe
    assert isinstance(tally.failure, Violated)
    explainer = ArithmeticExplainer(lambda: {check.clause.id: check}, 0)
    found = explainer.explain(trial, tally.failing_recipe, tally.failure.measured.claimed)
    assert found
    assert found.declare == ('layer.backward_precision = {"float16": {"partial_biases": 1, "reason": "partial sums of '
                             'the gradients of its biases are stored in float16"}}')
