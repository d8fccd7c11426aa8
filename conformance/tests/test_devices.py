"""Devices: who is judged on which, and that arrays are placed there, waited for and read back.

No GPU is at hand where these run. JAX is given several devices of the host, PyTorch a backend in Python
(helpers/near.py) that is as strict as a GPU: it refuses what lies elsewhere, and what is read before it was waited for.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from attnspec.core.errors import ManifestError, UsageError
from attnspec.core.nouns import DType, Effort
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.record.outcome import Outcome
from attnspec.runner.gate import gate
from attnspec.runner.session import Session
from attnspec.subjects.installed import look_in
from attnspec.subjects.manifest import Registered
from attnspec.subjects.registry import registered_subjects
from helpers.commands import Cli
from helpers.places import CHECKOUT

MANIFEST = """\
library: Mine
subjects:
  - id: on_gpu
    title: For GPUs
    function: adapter:attend
    lift: torch
    device: cuda
  - id: anywhere
    title: For any device
    function: adapter:attend
    lift: torch
  - id: arrays
    title: For NumPy's arrays
    function: adapter:attend
"""
BRIEFLY = ("--clause", "attention.shape", "--effort", "glance", "-n", "1")


@pytest.fixture(autouse=True)
def on_no_device() -> Iterator[None]:
    """A test that looks elsewhere leaves that to no other."""
    yield
    look_in(Surroundings())


def subjects(folder: Path, manifest: str = MANIFEST) -> dict[str, Registered]:
    """Those of a library of the folder, by the last part of their ids."""
    mine = folder / "implementations" / "mine"
    mine.mkdir(parents=True)
    (mine / "manifest.yaml").write_text(manifest, encoding="utf-8")
    (mine / "adapter.py").write_text("def attend(query, key, value):\n    return value\n", encoding="utf-8")
    found = registered_subjects([folder / "implementations"])
    return {name.partition("/")[2]: subject for name, subject in found.items() if name.startswith("mine/")}


def test_a_subject_of_another_device_says_which_one_to_name(tmp_path: Path) -> None:
    found = subjects(tmp_path)
    assert found["on_gpu"].why_missing == \
        "it runs on cuda alone; name a device: attnspec check --device cuda mine/on_gpu"
    assert [found["anywhere"].why_missing, found["arrays"].why_missing] == ["", ""]


@pytest.mark.parametrize("device", ["cuda:1", "gpu:0", "rocm"])
def test_where_its_device_is_named_it_is_judged_and_numpy_is_not(tmp_path: Path, device: str) -> None:
    look_in(Surroundings(device=device))
    found = subjects(tmp_path)
    assert [found["on_gpu"].why_missing, found["anywhere"].why_missing] == ["", ""]
    assert found["arrays"].why_missing == \
        "it runs on cpu alone; name a device: attnspec check --device cpu mine/arrays"


def test_a_subject_says_otherwise_than_its_library(tmp_path: Path) -> None:
    found = subjects(tmp_path, MANIFEST.replace("library: Mine\n", "library: Mine\ndevice: mps\n"))
    assert {name: subject.device for name, subject in found.items()} == \
        {"on_gpu": "cuda", "anywhere": "mps", "arrays": "mps"}


@pytest.mark.parametrize(("line", "message"), [
    ("    device: cudda\n", "manifest.yaml:6: 'cudda' is not a known kind of device. Did you mean 'cuda'?"),
    ("    precision_on: {coda: {float32: {reason: none}}}\n", "manifest.yaml:6: 'coda' is not a known"),
    ("    precision_on: {cuda: {float33: {reason: none}}}\n", "manifest.yaml:6: 'float33' is not a known"),
    ("    precision_on: {cuda: {float32: {grade: G1}}}\n", "the precision of 'float32' needs 'reason'"),
])
def test_a_device_that_is_no_device_is_told_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    lines = MANIFEST.partition("    lift")[0]
    with pytest.raises(ManifestError) as caught:
        subjects(tmp_path, lines + line)
    assert message in str(caught.value)


def test_precision_on_a_device_takes_the_place_of_that_on_any(tmp_path: Path) -> None:
    given = ("    precision: {float32: {exp_ulps: 20, reason: anywhere}, float16: {grade: G1, reason: anywhere}}\n"
             "    precision_on: {cuda: {float32: {exp_ulps: 105, reason: there}}}\n")
    declared = subjects(tmp_path, MANIFEST + given)["arrays"].declaration
    reasons = [{dtype.value: words["reason"] for dtype, words in declared.precision_there(kind).items()}
               for kind in ("cpu", "cuda")]
    assert reasons == [{"float32": "anywhere", "float16": "anywhere"}, {"float32": "there", "float16": "anywhere"}]


ON_TWO = """
import functools
import jax

@functools.partial(jax.jit, static_argnames="causal")  # one program for a shape, not one for each operation
def compiled(query, key, value, causal):
    output = jax.nn.dot_product_attention(*(each.swapaxes(1, 2) for each in (query, key, value)), is_causal=causal)
    return output.swapaxes(1, 2)

def attend(query, key, value, *, causal=False):
    if [each.id for each in query.devices() | key.devices() | value.devices()] != [2]:
        raise RuntimeError("placed on " + str(query.devices()))
    return compiled(query, key, value, causal)

def attend_and_leave(query, key, value):
    return jax.device_put(attend(query, key, value), jax.devices()[1])

for each in (attend, attend_and_leave):
    each.lift, each.dtypes = "jax", ["float32"]
"""


@pytest.fixture
def three(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with functions for one of JAX's three devices."""
    pytest.importorskip("jax")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    (here / "mine.py").write_text(ON_TWO, encoding="utf-8")
    return here


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["attend", "attend_and_leave"])
def test_jax_gets_its_arrays_on_the_device_and_is_read_from_any(three: Path, cli: Cli, name: str) -> None:
    code, printed, _ = cli("check", f"mine.py:{name}", "--device", "cpu:2", *BRIEFLY, "--record", "run.jsonl",
                           "--html", "page.html")
    assert (code, "1 of 1 applicable item held" in printed) == (0, True)
    assert card_of(three / "run.jsonl")["lives_in"]["device"] == "cpu:2"
    assert "device cpu:2" in (three / "page.html").read_text(encoding="utf-8")


def card_of(record: Path) -> dict[str, dict[str, str]]:
    """What a record says of its one subject."""
    events = map(json.loads, record.read_text(encoding="utf-8").splitlines())
    card, = (each["card"] for each in events if "card" in each)
    found: dict[str, dict[str, str]] = card
    return found


@pytest.mark.usefixtures("three")
def test_a_device_of_jax_that_is_not_there_is_told_with_those_that_are(cli: Cli) -> None:
    code, said, _ = cli("check", "mine.py:attend", "--device", "cpu:7", *BRIEFLY, "--no-record")
    assert code == 2
    assert "there is no device 'cpu:7' for jax here; there is cpu, cpu:0, cpu:1, cpu:2." in said


def test_the_keywords_of_strided_and_broadcast_tensors_keep_their_strides() -> None:
    torch = pytest.importorskip("torch")
    from attnspec.host.lifts.torch import place_tensor

    plain = torch.zeros(2, 3, 4, 8)
    views = [plain.transpose(1, 2), plain[:, ::2, 1:, ::3], plain[:1].expand(5, 3, 4, 8),
             plain[:, :1, ::2].expand(2, 6, 2, 8)]
    assert [place_tensor(view, "meta").stride() for view in views] == [view.stride() for view in views]


NEAR = """
import near
import torch

def attend(query, key, value, *, causal=False):
    assert {str(each.device) for each in (query, key, value)} == {"near:1"}, query.device
    logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1).to(logits.device)
        logits = logits.masked_fill(hidden, float("-inf"))
    return torch.softmax(logits, -1) @ value

def forgetful(query, key, value, *, causal=False):
    hidden = torch.zeros(query.shape[2], key.shape[2], dtype=torch.bool)
    return attend(query, key, value) if not causal else attend(query, key, value).masked_fill(hidden[:, :1], 0)

def greedy(query, key, value):
    output = attend(query, key, value)
    query.add_(1)
    return output

def wild(query, key, value, *, causal=False):
    if causal:
        near.lose()
    return attend(query, key, value, causal=causal)

for each in (attend, forgetful, greedy, wild):
    each.lift, each.dtypes, each.grouped = "torch", ["float32"], False
"""


@pytest.fixture
def near(here: Path) -> Path:
    """A folder with functions for the device `near:1`."""
    pytest.importorskip("torch.utils.backend_registration")
    shutil.copy(CHECKOUT / "conformance" / "tests" / "helpers" / "near.py", here)
    (here / "mine.py").write_text(NEAR, encoding="utf-8")
    return here


def judged(name: str, *clauses: str) -> dict[str, Outcome]:
    """What comes of a function on `near:1`, by clause."""
    plan = Plan((f"mine.py:{name}",), clauses=clauses, dtypes=(DType.FLOAT32,), effort=Effort.GLANCE,
                device="near:1")
    return {outcome.clause: outcome for outcome in Session(plan, workers=1).run([]).outcomes}


@pytest.mark.usefixtures("near")
def test_torch_is_placed_on_a_backend_of_its_own_waited_for_and_read_back() -> None:
    found = judged("attend", "attention.definition", "purity.strided_inputs", "purity.broadcast_inputs",
                   "purity.inputs_are_left_alone", "causal.no_lookahead")
    assert {clause: outcome.verdict.value for clause, outcome in found.items()} == dict.fromkeys(found, "held")


@pytest.mark.nightly
@pytest.mark.usefixtures("near")
def test_what_a_function_leaves_on_the_cpu_does_not_meet_the_rest() -> None:
    found = judged("forgetful", "causal.no_lookahead", "attention.worked_example")
    assert [outcome.verdict.value for outcome in found.values()] == ["held", "errored"]
    assert "expected all tensors to be on the same device" in found["causal.no_lookahead"].reason


@pytest.mark.nightly
@pytest.mark.usefixtures("near")
def test_a_change_of_inputs_on_the_device_is_seen() -> None:
    assert judged("greedy", "purity.inputs_are_left_alone")["purity.inputs_are_left_alone"].verdict.value == "violated"


@pytest.mark.nightly
@pytest.mark.usefixtures("near")
def test_a_lost_device_ends_one_process_and_is_the_finding_of_that_call() -> None:
    found = judged("wild", "attention.worked_example", "causal.no_lookahead", "numerics.ties")
    assert {name: outcome.verdict.value for name, outcome in found.items()} == {
        "attention.worked_example": "crashed",  # what it did while it was asked for its conventions
        "causal.no_lookahead": "crashed", "numerics.ties": "held"}
    evidence = found["causal.no_lookahead"].evidence
    assert evidence is not None
    assert "No more computation on near:1 is possible." in evidence.stderr


def test_a_function_object_has_no_device_and_the_gate_says_so() -> None:
    with pytest.raises(UsageError, match=r"stays in this process, with its arrays on the CPU\. For .* give its name"):
        gate(len, lift="torch", device="cuda")


@pytest.mark.nightly
def test_the_record_tells_the_device_and_its_name(near: Path, cli: Cli) -> None:
    cli("check", "mine.py:attend", "--device", "near:1", *BRIEFLY, "--record", "run.jsonl")
    told = card_of(near / "run.jsonl")["lives_in"]
    assert (told["device"], told["gpu"]) == ("near:1", "Near and dear (near:1)")


@pytest.mark.usefixtures("near")
def test_a_device_of_torch_that_is_not_there_is_told_with_those_that_are(cli: Cli) -> None:
    code, said, _ = cli("check", "mine.py:attend", "--device", "near:5", *BRIEFLY, "--no-record")
    assert code == 2
    assert "there is no device 'near:5' for torch here; there is cpu, near, near:0, near:1." in said
