"""`attnspec init` on signatures that libraries have: each is found out, written down, and the adapter works.

The table in docs/init.md is made here: `python conformance/tests/test_init_signatures.py` prints it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from attnspec.cli.manifests import write_files
from attnspec.core.errors import TargetError
from attnspec.core.nouns import Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.subject_run import SubjectRun
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm, Site
from attnspec.scaffold.lookup import TheirParameter
from attnspec.scaffold.manifest import measure_adapter, name_adapter, write_entry, write_head
from attnspec.scaffold.search import find_form
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.lines import write_arguments, write_arrays
from attnspec.scaffold.writing.source import write_source
from attnspec.scaffold.writing.telling import describe_arrays
from attnspec.scaffold.written_adapter import HURRIED_ENVIRONMENT, WrittenAdapter
from attnspec.spec.clause import first_of
from attnspec.subjects.registry import load_target
from attnspec.subjects.smoke import smoke_subject
from attnspec.subjects.subject import Subject
from attnspec.subjects.target import host_of
from helpers.law import checks
from helpers.places import CHECKOUT, TESTS
from helpers.sources import JUDGES, imported_packages, newer

FOLDER = TESTS / "signatures"
STAND_INS = ("torch_functions", "torch_layers", "numpy_functions", "jax_functions")
sys.path.append(str(FOLDER))  # what is judged is imported by name, as a user's modules are

GITHUB = "https://github.com"
TORCH = "https://docs.pytorch.org/docs/stable/generated"
REAL: Mapping[str, tuple[str, str]] = {
    "torch.nn.functional:scaled_dot_product_attention": (
        "PyTorch", f"{TORCH}/torch.nn.functional.scaled_dot_product_attention.html"),
    "torch.nn.functional:multi_head_attention_forward": (
        "PyTorch", f"{GITHUB}/pytorch/pytorch/blob/main/torch/nn/functional.py"),
    "torch.nn:MultiheadAttention": ("PyTorch", f"{TORCH}/torch.nn.MultiheadAttention.html"),
    "jax.nn:dot_product_attention": (
        "JAX", "https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html"),
    "equinox.nn:MultiheadAttention": ("Equinox", "https://docs.kidger.site/equinox/api/nn/attention/"),
    "flax.linen:MultiHeadDotProductAttention": (
        "Flax", "https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/layers.html"),
    "flax.nnx:MultiHeadAttention": ("Flax",
                                    "https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/attention.html"),
    "haiku:MultiHeadAttention": ("Haiku", "https://dm-haiku.readthedocs.io/en/latest/api.html#multiheadattention"),
    "keras.layers:MultiHeadAttention": ("Keras", "https://keras.io/api/layers/attention_layers/multi_head_attention/"),
    "keras.layers:GroupQueryAttention": (
        "Keras", "https://keras.io/api/layers/attention_layers/group_query_attention/"),
    "keras.layers:Attention": ("Keras", "https://keras.io/api/layers/attention_layers/attention/"),
    "transformers.models.gpt2.modeling_gpt2:GPT2Attention": (
        "Transformers", f"{GITHUB}/huggingface/transformers/blob/main/src/transformers/models/gpt2/modeling_gpt2.py"),
    "transformers.models.t5.modeling_t5:T5Attention": (
        "Transformers", f"{GITHUB}/huggingface/transformers/blob/main/src/transformers/models/t5/modeling_t5.py"),
    "x_transformers:Attention": (
        "x-transformers", f"{GITHUB}/lucidrains/x-transformers/blob/main/x_transformers/x_transformers.py"),
    "diffusers.models.attention_processor:Attention": (
        "diffusers", f"{GITHUB}/huggingface/diffusers/blob/main/src/diffusers/models/attention_processor.py"),
}
"""Of libraries themselves; a library that is not installed is left out."""
SHOWN = 14  # parameters in the table
JUDGED = {"core": "attention.definition", "masking": "masking.definition", "bias": "bias.definition",
          "causal": "causal.no_lookahead", "scale": "scale.explicit", "window": "window.definition",
          "softcap": "softcap.definition", "key_lengths": "lengths.definition",
          "query_lengths": "lengths.queries_definition", "sinks": "sinks.definition", "lse": "lse.definition",
          "past": "past.definition", "alibi_slopes": "slopes.definition", "segments": "segments.definition",
          "weights": "attention.returned_weights", "layers": "layers.definition"}
"""By profile, the clause that an adapter is put to."""


def targets() -> Mapping[str, tuple[str, str]]:
    """Every signature, with the library that it is taken from and the page."""
    own = {f"{module}:{name}": found for module in STAND_INS if _installed(module)
           for name, found in importlib.import_module(module).SOURCES.items()}
    return {**own, **REAL}


def _installed(module: str) -> bool:
    """Whether there is what a module is written with: `torch_functions` with torch."""
    framework = module.partition(".")[0].partition("_functions")[0].partition("_layers")[0]
    return importlib.util.find_spec(framework) is not None


@cache
def there() -> CalleeProcess:
    """One process for all: what a framework compiles in it is kept."""
    backend = {"KERAS_BACKEND": "torch" if _installed("torch") else "jax"}
    return CalleeProcess(host_of("", Surroundings(environment={**HURRIED_ENVIRONMENT, **backend})))


def find_form_and_trier(target: str) -> tuple[CallForm, Trier]:
    trier = Trier(there())
    return find_form(target, trier), trier


def row(target: str, form: CallForm) -> str:
    """The row of the table: the signature, where it is from, the form that was found, and what is written."""
    library, link = targets()[target]
    origin = f"[{library}]({link})" if link else library
    return f"| `{signature(target)}` | {origin} | {_form(form)} | `{_written(form)}` |"


def signature(target: str) -> str:
    """As in `inspect`, without annotations."""
    thing = there().examine(target)
    name = target.partition(":")[2]
    if not thing.is_class:
        return f"{name}({_listed(thing.parameters)})"
    return f"{name}({_listed(thing.constructor_parameters)})({_listed(thing.call_parameters)})"


def _listed(parameters: Sequence[TheirParameter]) -> str:
    texts = [each.name if each.is_required else f"{each.name}={each.text or '…'}" for each in parameters]
    return ", ".join([*texts[:SHOWN], *(["…"] if len(texts) > SHOWN else [])])


def _form(form: CallForm) -> str:
    assert form.reading is not None
    says = [f"{each.keyword}: {each.says}" for each in form.bindings if each.says]
    answer = f"gives {form.reading.path and f'`answer{form.reading.path}`, '}{form.reading.layout.shape}"
    return "; ".join([describe_arrays(form), answer, *says,
                      *(each.rstrip(".") for each in (*form.warnings, *form.remarks))])


def _written(form: CallForm) -> str:
    given = [*write_arrays(form), *(f"{name}={text}" for name, text in write_arguments(form).items())]
    made = ", ".join(f"{name}={text}" for name, text in write_arguments(form, Site.CONSTRUCTOR).items())
    return f"{form.name}{f'({made})' if form.is_class else ''}({', '.join(given)})"


@pytest.fixture(scope="module")
def implementations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: adapters are imported by its name."""
    return tmp_path_factory.mktemp("implementations")


def write_adapter(target: str, implementations: Path) -> tuple[CallForm, Subject]:
    """The adapter and the manifest as `init` writes them, loaded as `check` does."""
    form, trier = find_form_and_trier(target)
    library, name = f"{name_adapter(form)[0]}_own", name_adapter(form)[1]
    subject = write_entry(form, measure_adapter(form, trier))
    write_files(implementations / library, WrittenAdapter(library, name, write_source(form), write_head(form), subject))
    importlib.invalidate_caches()
    return form, load_target(f"{library}/{name}", folders=[implementations])


def departures(subject: Subject) -> Mapping[str, Verdict]:
    """By clause, the verdict where it is not HELD: one clause for each profile that the manifest claims."""
    subject_run = SubjectRun(subject, Plan((), effort=Effort.GLANCE), lambda _: None)
    clauses = [JUDGED[profile] for profile in ("core", *subject.declaration.claims) if profile in JUDGED]
    dtype = first_of(subject.declaration.dtypes)
    outcomes = {clause: subject_run.try_clause(checks()[clause], dtype) for clause in clauses}
    return {clause: outcome.verdict for clause, outcome in outcomes.items() if outcome.verdict is not Verdict.HELD}


DEPARTS: Mapping[str, set[str]] = {
    # scaled by whoever calls it: the manifest's note says so
    "torch_functions:openfold_attention": {"attention.definition", "bias.definition", "masking.definition"},
    # the flag is dropped beside a mask or a bias
    "torch_layers:TorchtuneMultiHeadAttention": {"causal.no_lookahead"},
    # its stand-in ignores the window, which is for decoding alone
    "torch_layers:OnmtMultiHeadedAttention": {"attention.definition", "layers.definition", "masking.definition",
                                              "window.definition"},
    # its rotary embedding turns pairs of features: heads of odd width raise
    "torch_layers:GptFastAttention": {"attention.definition", "masking.definition"},
}
"""What some do not keep, as they are published."""


@pytest.fixture(scope="module", autouse=True)
def _hurried() -> Iterator[None]:
    """JAX compiles every operation anew for every shape: without optimizing, in half of the time."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def table() -> str:
    return (CHECKOUT / "docs/init.md").read_text(encoding="utf-8")


def test_there_are_more_than_forty() -> None:
    """Where PyTorch and JAX are installed, as the suite's own environment has them."""
    assert len(targets()) > 40


OF_JAX = {target for target in targets() if target.startswith("jax")}


@pytest.mark.family(4)
@pytest.mark.parametrize("target", [target for target in targets() if target not in OF_JAX])
def test_a_signature_is_found_out_and_its_adapter_works(target: str, implementations: Path, table: str) -> None:
    check_what_is_found_out(target, implementations, table)


@pytest.mark.nightly
@pytest.mark.parametrize("target", sorted(OF_JAX))
def test_so_is_one_of_jax(target: str, implementations: Path, table: str) -> None:
    check_what_is_found_out(target, implementations, table)


def check_what_is_found_out(target: str, implementations: Path, table: str) -> None:
    pytest.importorskip(target.partition(".")[0].partition(":")[0], reason="the library is not installed")
    form, subject = write_adapter(target, implementations)
    assert newer(write_source(form)) == ""
    assert not JUDGES & {*imported_packages(write_source(form))}
    assert [each for each in smoke_subject(subject) if not each.has_passed] == []
    assert departures(subject).keys() == DEPARTS.get(target, set())
    if target.partition(":")[0] in (*STAND_INS, "torch.nn", "torch.nn.functional"):
        assert row(target, form) in table, f"docs/init.md is old: python {Path(__file__).name} prints the table"


@pytest.mark.nightly
def test_an_adapter_is_code_that_ruff_passes(tmp_path: Path) -> None:
    """Every kind of adapter, by the rules of this repository."""
    pytest.importorskip("torch")
    (adapters := tmp_path / "adapters").mkdir()
    for target in LINTED:
        form, _ = find_form_and_trier(target)
        (adapters / f"{name_adapter(form)[1]}.py").write_text(write_source(form), encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--config", str(CHECKOUT / "pyproject.toml"), str(adapters)]
    ruff = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ruff.stdout.strip() == "All checks passed!", ruff.stdout


LINTED = ("torch_functions:flash_attn_func", "torch_functions:single_prefill_with_kv_cache",
          "torch_functions:eager_attention_forward", "torch_functions:MegatronDotProductAttention",
          "torch_layers:LlamaAttention", "torch_layers:ViTAttention", "torch_layers:WhisperMultiHeadAttention",
          "torch_layers:D2lMultiHeadAttention", "numpy_functions:scaled_dot_product_attention", "numpy_functions:mha")


STRANGERS: Mapping[str, str] = {
    "strangers:linear_attn": "Nearest is a function that takes torch tensors (B,H,T,D), key and value (B,H,S,D), its "
                             "output (B,H,T,D); but its output is 1.02 where 3.28 is expected, at (3, 1, 2, 5).",
    "strangers:sigmoid_attention": "its output (B,H,T,D); but its output is 5.13 where 1.98 is expected",
    "strangers:MultiHeadAttention": "without its layer_norm, its output answer[0], (B,T,M); but its output is 1.91 "
                                    "where -0.618 is expected, at (3, 1, 12); it adds its input (a residual), "
                                    "without which "
                                    "it would be right.",
    "strangers:AttentionPool2d": "but it returns (4, 16), of which nothing can be read as (4, 3, 16). What its "
                                 "spacial_dim means could not be found out",
    "strangers:Headless": "given thing=None; but it raises TypeError: object of type 'NoneType' has no len(). What "
                          "its thing means could not be found out, and it has no default.",
    "strangers:wants_more": "given workspace=None; but it raises TypeError: 'NoneType' object is not subscriptable. "
                            "What its workspace means could not be found out, and it has no default.",
    "torch.nn:TransformerEncoderLayer": "but which of its parameters (self_attn.in_proj_weight (48, 16), "
                                        "self_attn.in_proj_bias (48,), self_attn.out_proj.weight (16, 16), "
                                        "self_attn.out_proj.bias (16,) and 8 more) is which matrix could not be told.",
}


@pytest.mark.family(1)
@pytest.mark.parametrize("target", [
    pytest.param(target, marks=pytest.mark.nightly) if "Transformer" in target else target for target in STRANGERS])
def test_a_failure_names_the_nearest_form_and_what_stood_against_it(target: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(TargetError, match=re.escape(STRANGERS[target])):
        find_form_and_trier(target)


if __name__ == "__main__":
    sys.stdout.write("| signature | from | form that was found | what is written |\n|---|---|---|---|\n")
    for each in targets():
        if _installed(each.partition(":")[0]):
            sys.stdout.write(f"{row(each, find_form_and_trier(each)[0])}\n")
