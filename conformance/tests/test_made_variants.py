"""Variants that attnspec makes itself: compiled, exported, mapped over the batch, recomputed; each = the plain one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.declaration import Declaration
from attnspec.core.errors import ManifestError, UsageError
from attnspec.core.forms import AS_DECLARED, FORMS, VARIANTS, foretold_variants, forms_asked, read_variants
from attnspec.core.nouns import Effort, Kind, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.faults import catalogue
from attnspec.faults.fault import Fault
from attnspec.record.outcome import Outcome
from attnspec.spec.load import load_spec
from attnspec.subjects.registry import load_target, registered_subjects
from attnspec.subjects.subject import add_made_variants, why_no_form

pytest.importorskip("torch")

TORCH = """
import torch
import torch.nn.functional as F

def sound(query, key, value, *, mask=None, causal=False, scale=None):
    seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril() if causal else None
    seen = mask if seen is None else seen if mask is None else seen & mask
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale)

def another_when_compiled(query, key, value, *, mask=None):
    return sound(query, key, value, mask=None if torch.compiler.is_compiling() else mask)

def another_when_exported(query, key, value, *, mask=None):
    return sound(query, key, value, mask=None if torch.compiler.is_exporting() else mask)

class FirstOfBatch(torch.autograd.Function):
    @staticmethod
    def forward(query, key, value):
        return sound(query, key, value)

    @staticmethod
    def setup_context(context, inputs, output):
        pass

    @staticmethod
    def vmap(info, axes, query, key, value):
        return FirstOfBatch.apply(query[0], key[0], value[0]).expand(info.batch_size, *query.shape[1:-1], -1), 0

def maps_the_first(query, key, value):
    return FirstOfBatch.apply(query, key, value)

def drops_anew(query, key, value):
    is_recomputed = torch._C._current_graph_task_id() != -1
    kept = torch.arange(key.shape[-2]) % 2 == int(is_recomputed)
    return sound(query, key, value * kept[:, None])

def asks_numbers(query, key, value, *, mask=None):
    return sound(query, key, value, mask=mask) if query.sum().item() > -1e30 else query

def writes_into_its_own(query, key, value):
    answer = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    answer[:] = sound(query, key, value)
    return answer

def without_onnx(query, key, value):
    import sys
    sys.modules["onnx"] = None
    return sound(query, key, value)
"""
JAX = """
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

def sound(query, key, value, *, mask=None):
    logits = jnp.einsum("bhtd,bhsd->bhts", query, key) / query.shape[-1] ** 0.5
    logits = logits if mask is None else jnp.where(mask, logits, -jnp.inf)
    return jax.nn.softmax(logits, -1) @ value

def another_when_traced(query, key, value, *, mask=None):
    return sound(query, key, value, mask=None if isinstance(query, jax.core.Tracer) else mask)

@custom_vmap
def maps_the_first(query, key, value):
    return sound(query, key, value)

@maps_the_first.def_vmap
def first(size, mapped, query, key, value):
    found = sound(query[0], key[0], value[0])
    return jnp.broadcast_to(found, (size, *found.shape)), True

def maps(query, key, value):
    return maps_the_first(query, key, value)

def asks_numbers(query, key, value):
    return sound(query, key, value) if float(query.sum()) > -1e30 else query
"""
SIZES = "B2,H2,Hkv2,T3,S4,D4,Dv4"
PLAIN = f"{SIZES};mask=none;families=normal;seed=3"
MASKED = f"{SIZES};mask=random;families=normal;with=mask;seed=3"
OF_GRADIENTS = f"{SIZES};mask=none;families=normal;with=grad_output;grad_output=normal;seed=3"
CLAUSES = {"compile": "variants.compiled", "export": "variants.exported", "onnx": "variants.in_onnx",
           "vmap": "variants.mapped", "checkpoint": "variants.recomputed"}
MAPPED = {"variants.mapped", "variants.mapped_masks", "variants.mapped_lengths"}


def put(folder: Path, name: str, form: str, recipe: str, *, lift: str = "torch", dtype: str = "float32") -> Outcome:
    """What comes of one case of the clause about a form, of a function in the file of its framework."""
    file = folder / f"of_{lift or 'torch'}.py"
    file.write_text({"jax": JAX, "torch": TORCH}[lift or "torch"])
    plan = Plan((f"{file}:{name}",), clauses=(CLAUSES.get(form, form),), lift=lift)
    return Engine(plan).replay(Item(plan.targets[0], plan.clauses[0], dtype), recipe)


@pytest.mark.parametrize(("form", "recipe"), [
    pytest.param("compile", MASKED, marks=pytest.mark.nightly),  # seconds of compiling
    pytest.param("export", MASKED, marks=pytest.mark.nightly), ("vmap", MASKED),
    pytest.param("checkpoint", OF_GRADIENTS, marks=pytest.mark.nightly),
    pytest.param("variants.compiled_gradients", OF_GRADIENTS, marks=pytest.mark.nightly)])
def test_a_sound_function_is_the_same_in_every_form(tmp_path: Path, form: str, recipe: str) -> None:
    outcome = put(tmp_path, "sound", form, recipe)
    assert (outcome.verdict, outcome.reason) == (Verdict.HELD, "")


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "form", "recipe", "says"), [
    pytest.param("another_when_compiled", "compile", MASKED, "output by torch.compile should be that without: ",
                 marks=pytest.mark.nightly),
    pytest.param("another_when_exported", "export", MASKED, "output by torch.export should be that without: ",
                 marks=pytest.mark.nightly),
    ("maps_the_first", "vmap", PLAIN, "output by torch.func.vmap should be that without: "),
    ("drops_anew", "checkpoint", OF_GRADIENTS, "key_gradient by torch.utils.checkpoint should be that without: ")])
def test_a_form_of_pytorch_that_differs_is_convicted(
        tmp_path: Path, name: str, form: str, recipe: str, says: str) -> None:
    outcome = put(tmp_path, name, form, recipe)
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason.startswith(says)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "form", "says"), [
    ("asks_numbers", "export", "torch.export refuses it ("),
    ("asks_numbers", "vmap", "torch.func.vmap refuses it ("),
    ("writes_into_its_own", "vmap", "torch.func.vmap refuses it ("),
    ("without_onnx", "onnx", "the export to ONNX refuses it (onnx is not installed where it lives)")])
def test_a_form_that_is_refused_does_not_apply(tmp_path: Path, name: str, form: str, says: str) -> None:
    outcome = put(tmp_path, name, form, PLAIN)
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason.startswith(says)


def test_onnx_is_run_by_onnx_runtime(tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    assert put(tmp_path, "sound", "onnx", MASKED).verdict is Verdict.HELD
    assert put(tmp_path, "another_when_exported", "onnx", MASKED).verdict is Verdict.VIOLATED


@pytest.mark.nightly
def test_onnx_is_not_asked_in_half_precision(tmp_path: Path) -> None:
    outcome = put(tmp_path, "sound", "onnx", PLAIN, dtype="float16")
    assert outcome.reason == ("an ONNX graph stores what each operator returns: in half precision that is arithmetic "
                              "of its own")


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "recipe"), [
    ("compile", MASKED), ("export", MASKED), ("vmap", MASKED), ("checkpoint", OF_GRADIENTS)])
def test_a_sound_function_of_jax_is_the_same_in_every_form(tmp_path: Path, form: str, recipe: str) -> None:
    pytest.importorskip("jax")
    outcome = put(tmp_path, "sound", form, recipe, lift="jax")
    assert (outcome.verdict, outcome.reason) == (Verdict.HELD, "")


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "form", "recipe", "says"), [
    ("another_when_traced", "compile", MASKED, "output by jax.jit should be that without: "),
    ("another_when_traced", "export", MASKED, "output by jax.export should be that without: "),
    ("maps", "vmap", PLAIN, "output by jax.vmap should be that without: ")])
def test_a_form_of_jax_that_differs_is_convicted(
        tmp_path: Path, name: str, form: str, recipe: str, says: str) -> None:
    pytest.importorskip("jax")
    outcome = put(tmp_path, name, form, recipe, lift="jax")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason.startswith(says)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "form", "says"), [
    ("asks_numbers", "compile", "jax.jit refuses it (ConcretizationTypeError: "),
    ("sound", "onnx", "the export to ONNX refuses it (JAX itself exports no ONNX)")])
def test_a_form_that_jax_refuses_does_not_apply(tmp_path: Path, name: str, form: str, says: str) -> None:
    pytest.importorskip("jax")
    outcome = put(tmp_path, name, form, PLAIN, lift="jax")
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason.startswith(says)


@pytest.mark.nightly
def test_few_shapes_are_asked_of_what_compiles(tmp_path: Path) -> None:
    file = tmp_path / "of_torch.py"
    file.write_text(TORCH)
    plan = Plan((f"{file}:sound",), variants=("export",), profiles=("variants",), effort=Effort.QUICK, lift="torch")
    outcome = Engine(plan).try_item(Item(plan.targets[0], "variants.exported", "float32"))
    assert outcome.verdict is Verdict.HELD
    assert 0 < outcome.cases <= 5


@pytest.mark.family(3)
@pytest.mark.parametrize("fault", catalogue.FORM_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_form_is_seen_by_the_clause_that_names_it(fault: Fault) -> None:
    [clause] = [each.id for each in load_spec().clauses if fault.name in each.refuted_by]
    plan = Plan((f"fault/{fault.name}",), clauses=(clause,), effort=Effort.QUICK)
    assert Engine(plan).try_item(Item(plan.targets[0], clause, "float32")).verdict is Verdict.VIOLATED


@pytest.mark.family(4)
@pytest.mark.parametrize("fault", catalogue.FORM_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_form_is_right_where_it_is_plain(fault: Fault) -> None:
    clause = "gradients.of_query" if fault.backward else "attention.definition"
    plan = Plan((f"fault/{fault.name}",), clauses=(clause,), effort=Effort.QUICK)
    assert Engine(plan).try_item(Item(plan.targets[0], clause, "float32")).verdict is Verdict.HELD


def clauses_of(**plan: object) -> set[str]:
    """The clauses that a run puts to a subject of PyTorch, less those of the law's rest."""
    engine = Engine(Plan(("torch/sdpa",), **plan))  # type: ignore[arg-type]  # fields of a plan
    return {item.clause for item in engine.items() if item.clause.startswith("variants.")}


def test_variants_are_put_only_to_who_asks_for_them() -> None:
    assert clauses_of() == set()
    assert clauses_of(variants=("vmap", "checkpoint")) == {*MAPPED, "variants.recomputed"}
    assert clauses_of(variants=("vmap",), profiles=("variants",)) == MAPPED
    assert clauses_of(profiles=("variants",)) == {each.id for each in load_spec().clauses if each.made_forms}


def test_variants_are_asked_beside_what_else_is_selected() -> None:
    engine = Engine(Plan(("torch/sdpa",), clauses=("scale.explicit",), variants=("vmap",)))
    assert {item.clause for item in engine.items()} == {"scale.explicit", *MAPPED}


def test_an_audit_asks_for_the_variants_that_a_manifest_names(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.py").write_text(TORCH)
    manifest = tmp_path / "mine" / "manifest.yaml"
    manifest.write_text("library: Mine\nsubjects:\n  - id: a\n    title: A\n    function: own:sound\n    lift: torch\n"
                        "    made: [vmap]\n")
    assert registered_subjects((str(tmp_path),), library="mine")["mine/a"].declaration.made == ("vmap",)
    plan = Plan(("mine/a",), implementations=(str(tmp_path),), variants=(AS_DECLARED,))
    assert {item.clause for item in Engine(plan).items() if item.clause.startswith("variants.")} == MAPPED
    manifest.write_text(manifest.read_text().replace("vmap", "vmapp"))
    with pytest.raises(ManifestError, match=r"'vmapp' is not a known variant that attnspec makes\. Did you mean"):
        registered_subjects((str(tmp_path),), library="mine")


@pytest.mark.parametrize(("declared", "says"), [
    (Declaration(), "it takes NumPy arrays, of whose functions no framework makes another form"),
    (Declaration(kind=Kind.ROTARY, lift="torch"), "other forms are made of attention in the usual layout alone"),
    (Declaration(lift="torch"), "")])
def test_what_has_no_other_form_says_why(declared: Declaration, says: str) -> None:
    assert why_no_form(declared) == says


def test_a_function_of_numpy_has_no_other_form() -> None:
    subject = add_made_variants(load_target("numpy/attention"), FORMS)
    assert subject.made == {}


def test_a_form_is_not_another_with_gradients_of_its_own() -> None:
    subject = add_made_variants(load_target("torch/sdpa"), ("checkpoint",))
    assert (subject.made["checkpoint"].id, subject.made["checkpoint"].made) == (
        "torch/sdpa[torch.utils.checkpoint]", {})
    assert "grad_output" not in subject.declaration.keywords


def test_names_of_variants_are_read_with_commas_and_alone() -> None:
    assert read_variants(["compile, vmap", "compile"]) == ("compile", "vmap")
    with pytest.raises(UsageError, match=r"'vmpa' is not a known variant\. Did you mean 'vmap'"):
        read_variants(["compile,vmpa"])


def test_what_variants_cost_is_told_of_those_that_compile() -> None:
    assert list(foretold_variants(("vmap", "checkpoint"))) == []
    assert list(foretold_variants(("compile", "export", "vmap"))) == [
        "variants: compile and export run a compiler for every shape, some seconds each, up to 5 shapes a clause and "
        "dtype"]


def test_each_form_has_a_clause_and_a_name() -> None:
    asked = {form for clause in load_spec().clauses for form in clause.made_forms}
    assert asked == set(FORMS) == {form for forms in VARIANTS.values() for form in forms}
    assert forms_asked(replace(Plan(()), clauses=("variants.*",))) == set(FORMS)
