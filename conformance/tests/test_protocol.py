"""docs/protocol.md is enough to write a host from: a small one, written from that page, is judged like any subject."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from attnspec.cli import main
from attnspec.core import paths
from attnspec.core.errors import ManifestError, TargetError
from attnspec.core.nouns import DType, Verdict
from attnspec.core.surroundings import Surroundings
from attnspec.problems.problem import Problem
from attnspec.subjects import installed
from attnspec.subjects.registry import load_target, registered_subjects
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised

HOST = '''\
import json, math, os, struct, sys
import numpy as np

def attend(query, key, value, mask=None, scale=None):
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    logits = query.astype("f8") @ key.astype("f8").swapaxes(-1, -2) * scale
    logits = logits if mask is None else np.where(mask, logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return FLAW((weights / np.where(total == 0, 1, total) @ value.astype("f8")).astype(query.dtype))

def read(count):
    data = sys.stdin.buffer.read(count)
    return data if len(data) == count else sys.exit(0)

def array(told, body):
    kept, part = np.dtype(told["dtype"]), bytearray(body[:told["bytes"]])
    if not part:
        return np.empty(told["shape"], kept)
    return np.ndarray(told["shape"], kept, part, told.get("offset", 0), told.get("strides"))

def receive():
    head, length = struct.unpack("<IQ", read(12))
    header, body, at, arrays = json.loads(read(head)), read(length), 0, []
    for told in header.pop("arrays", []):
        arrays.append(array(told, body[at:]))
        at += told["bytes"] + -told["bytes"] % 64
    return header, arrays

def send(header, arrays=()):
    told = [{"dtype": a.dtype.name, "shape": a.shape, "bytes": a.nbytes} for a in arrays]
    text = json.dumps({**header, "arrays": told} if arrays else header).encode()
    body = b"".join(a.tobytes() + bytes(-a.nbytes % 64) for a in arrays)
    sys.stdout.buffer.write(struct.pack("<IQ", len(text), len(body)) + text + body)
    sys.stdout.buffer.flush()

def called(header, arrays):
    keywords = {name: arrays[value["$array"]] if isinstance(value, dict) else value
                for name, value in header["keywords"].items()}
    ended = {"ended": "answered", "call": 1, "results": 1, "has_gradients": False, "aliases": [], "said": "",
             "told": {}}
    before = [array.copy() for array in arrays]
    try:
        output = attend(*(arrays[at] for at in header["inputs"]), **keywords)
    except Exception as error:
        told = {"summary": str(error), "traceback": "", "classes": [], "statement": ""}
        return {**ended, "ended": "raised", "results": 0, "told": told, "changed": []}, []
    changed = [at for at, array in enumerate(arrays) if array.tobytes() != before[at].tobytes()]
    return {**ended, "changed": changed}, [output]

PARAMETERS = [{"name": name, "kind": "POSITIONAL_OR_KEYWORD"} for name in ("query", "key", "value")]
PARAMETERS += [{"name": name, "kind": "KEYWORD_ONLY", "default": None} for name in ("mask", "scale")]
DESCRIBED = {"type": "function", "qualname": "attend", "module": "host", "doc": "", "place": None, "attributes": {},
             "uses": [], "parameters": PARAMETERS, "is_class": False, "is_callable": True, "is_function": True,
             "is_deferred": False, "is_module_of_torch": False}
ANSWERS = {"hello": {"version": 1, "python": "Tiny 1"}, "forget": {}, "recall": {"call": 1},
           "load": {"handle": 0, "described": DESCRIBED, "versions": {"tiny": "7.1"}},
           "lift": {"device": "cpu", "not_taken": {"bfloat16": "it has none"}, "flushed": {}}}
MORE

while True:
    header, arrays = receive()
    if header["do"] == "call":
        send(*called(header, arrays))
    else:
        send(ANSWERS.get(header["do"], {"error": "what is that?"}))
'''

MANIFEST = """\
library: Tiny
distribution: tiny
install: write it
host: {command}
{more}
subjects:
  - id: attention
    title: Attention in a program
    function: attend
    dtypes: [float32, bfloat16]
    limits: {{broadcasts: true}}
    conventions: {{hidden_row: zeros}}
    process: {{TINY: told}}
"""


def library(tmp_path: Path, *, flaw: str = "lambda output: output", more: str = "", manifest: str = "",
            command: str = f"{shlex.quote(sys.executable)} host.py") -> Path:
    """A folder of implementations with one library, whose program is the host above with one thing changed."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "host.py").write_text(f"FLAW = {flaw}\n" + HOST.replace("MORE", more), encoding="utf-8")
    (folder / "manifest.yaml").write_text(MANIFEST.format(command=command, more=manifest), encoding="utf-8")
    return tmp_path


def summoned(folder: Path) -> Subject:
    return load_target("tiny/attention", Surroundings(deadline=20), folders=[folder])


def small() -> Problem:
    array = np.ones((1, 1, 2, 3), np.float32)
    return Problem(DType.FLOAT32, array, array.copy(), array.copy())


def check(folder: Path, *more: str) -> int:
    clauses = [f"--clause={name}" for name in ("attention.definition", "masking.definition", "scale.explicit")]
    return main(["check", "tiny/attention", "--implementations", str(folder), *clauses, "-n", "1", *more])


def test_a_host_written_from_the_page_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(library(tmp_path)) == 0
    assert "Conforms." in capsys.readouterr().out


def test_a_wrong_host_is_convicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(library(tmp_path, flaw="lambda output: output * 1.25")) == 1
    assert "attention.definition" in capsys.readouterr().out


def test_the_version_and_the_place_in_the_record_are_the_programs(tmp_path: Path) -> None:
    subject = summoned(library(tmp_path))
    assert (subject.library.version, subject.callee.place["python"]) == ("7.1", "Tiny 1")


def test_a_dtype_that_a_host_does_not_take_is_left_out_with_its_words(tmp_path: Path) -> None:
    declaration = summoned(library(tmp_path)).declaration
    assert declaration.dtypes == (DType.FLOAT32,)
    assert declaration.left_out == {DType.BFLOAT16: "it has none"}


def test_a_program_runs_in_its_folder_with_its_variables(tmp_path: Path) -> None:
    """`host.py` is found there; what the process is told stands in its environment, and nothing tells of a test."""
    ask = "ANSWERS['hello']['python'] = str((os.getcwd(), os.environ['TINY'], 'PYTEST_CURRENT_TEST' in os.environ))"
    library(tmp_path, more=ask)
    subject = load_target("tiny/attention", Surroundings(environment={"TINY": "told"}), folders=[tmp_path])
    assert subject.callee.place["python"] == str((str(tmp_path / "tiny"), "told", False))


def test_a_host_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = library(tmp_path, more="ANSWERS['hello']['version'] = 2")
    with pytest.raises(TargetError, match=r"host speaks version 2 of the protocol; this attnspec speaks version 1\."):
        summoned(folder)


@pytest.mark.family(3)
@pytest.mark.parametrize(("more", "words"), [
    ("print('Welcome to Tiny, the small host!', flush=True)",
     r"starts no process that answers: what came back is not an answer: a header of \d+ bytes"),
    ("sys.exit('Tiny needs a licence')", r"starts no process that answers: Tiny needs a licence"),
    ("del ANSWERS['load']", r"the host answers: what is that\?"),
    ("ANSWERS['load'] = {}",
     r"the host's answer to 'load' must have the fields 'handle' and 'described' \(docs/protocol\.md\)\."),
    ("del DESCRIBED['uses']", r"the host does not describe 'attend' as docs/protocol\.md says: KeyError\('uses'\)\."),
    ("ANSWERS['lift'] = {}",
     r"the host's answer to 'lift' must have the fields 'not_taken' and 'flushed' \(docs/protocol\.md\)\."),
    ("ANSWERS['load'] = {'not_loaded': {'kind': 'member', 'part': 'attend', 'file': 'host', 'members': ['attended'], "
     "'own': []}}", r"there is no 'attend' in it.* Did you mean 'attended'\?"),
])
def test_a_host_that_is_not_in_order_is_told_in_words(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        summoned(library(tmp_path, more=more))


def test_garbage_during_a_call_is_a_death_of_the_host(tmp_path: Path) -> None:
    subject = summoned(library(tmp_path, flaw="lambda output: print('almost done ...', flush=True) or output"))
    with pytest.raises(SubjectDied, match="what came back is not an answer") as died:
        subject.answer(small())
    assert died.value.verdict is Verdict.CRASHED


def test_a_program_that_ends_tells_its_exit_code_and_last_words(tmp_path: Path) -> None:
    last = "lambda output: print('out of luck', end='', file=sys.stderr, flush=True) or os._exit(7)"
    subject = summoned(library(tmp_path, flaw=last))
    with pytest.raises(SubjectDied, match=r"the process died while the implementation ran \(exit code 7\)") as died:
        subject.answer(small())
    assert died.value.stderr == "out of luck"


def test_a_program_that_has_died_is_started_anew(tmp_path: Path) -> None:
    once = "lambda output: output if os.path.exists('mark') else open('mark', 'w') and os._exit(1)"
    subject = summoned(library(tmp_path, flaw=once))
    with pytest.raises(SubjectDied):
        subject.answer(small())
    np.testing.assert_array_equal(subject.answer(small()).output, small().value)


TAKES = "lambda output: print('a lot', file=sys.stderr) or (taken := bytearray(2**29)) and time.sleep(20)"
CHILD_TAKES = ("lambda output: subprocess.run([sys.executable, '-c', "
               "'import time; taken = bytearray(2**29); time.sleep(20)'])")
LIMITED = Surroundings(deadline=20, memory=2**28)


@pytest.mark.parametrize("flaw", [TAKES, CHILD_TAKES], ids=["itself", "a child"])
def test_a_program_that_takes_too_much_memory_is_ended(tmp_path: Path, flaw: str) -> None:
    folder = library(tmp_path, flaw=f"{flaw}; import subprocess, time")
    subject = load_target("tiny/attention", LIMITED, folders=[folder])
    with pytest.raises(SubjectDied, match=r"the process took \d+ MiB where 256 MiB are allowed") as died:
        subject.answer(small())
    assert died.value.verdict is Verdict.CRASHED
    assert died.value.stderr == ("a lot" if flaw is TAKES else "")


def test_a_program_whose_memory_is_limited_is_judged_like_another(tmp_path: Path) -> None:
    once = "lambda output: output if os.path.exists('mark') else open('mark', 'w') and os._exit(7)"
    subject = load_target("tiny/attention", LIMITED, folders=[library(tmp_path, flaw=once)])
    with pytest.raises(SubjectDied, match=r"the process died while the implementation ran \(exit code 7\)"):
        subject.answer(small())
    np.testing.assert_array_equal(subject.answer(small()).output, small().value)


def test_memory_that_nobody_here_can_watch_is_not_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder = library(tmp_path, command="docker run --rm -i tiny")
    words = (r"--memory cannot be kept for 'docker run --rm -i tiny': what docker starts is no process that can be "
             r"watched from here\. Limit the memory there, as `docker run --memory` does, and leave --memory out\.")
    with pytest.raises(TargetError, match=words):
        load_target("tiny/attention", LIMITED, folders=[folder])


def test_what_a_host_says_was_raised_is_told(tmp_path: Path) -> None:
    subject = summoned(library(tmp_path, flaw="lambda output: 1 / 0"))
    with pytest.raises(SubjectRaised, match="division by zero"):
        subject.answer(small())


def test_an_answer_of_another_shape_than_is_due_is_no_answer(tmp_path: Path) -> None:
    subject = summoned(library(tmp_path, flaw="lambda output: output[0]"))
    with pytest.raises(SubjectDied,
                       match="what came back is not an answer: the arrays are not those that were expected"):
        subject.answer(small())


def test_a_change_of_the_inputs_is_seen_in_what_comes_back(tmp_path: Path) -> None:
    more = "inner = attend\ndef attend(query, *rest, **more):\n    query += 1\n    return inner(query, *rest, **more)"
    assert summoned(library(tmp_path, more=more)).answer(small()).mutated == ("query",)


@pytest.mark.parametrize(("changes", "words"), [
    ({"command": "no_such_program_at_all host"}, r"no_such_program_at_all is not on the PATH\. Install it: write it"),
    ({"manifest": "requires: node_modules/tiny"}, r"there is no node_modules/tiny in .*tiny\. Install it: write it"),
    ({"manifest": "versions: '>=8'"}, r"Tiny 7\.1 is installed; its adapters are written for >=8"),
])
def test_a_program_that_cannot_run_here_says_why(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(TargetError, match=f"cannot be judged here: {words}"):
        summoned(library(tmp_path, **changes))


@pytest.mark.parametrize(("command", "words"), [
    ('"\'\'"', r"should be a command, as in 'node host\.mjs'\."),
    ("node 'host.mjs", r"is no command: No closing quotation\."),
])
def test_a_command_that_is_none_is_an_error_with_its_line(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words) as caught:
        registered_subjects([library(tmp_path, command=command)])
    assert str(caught.value).startswith(f"{tmp_path}/tiny/manifest.yaml:4")


def test_a_program_is_no_part_of_another_environment(tmp_path: Path) -> None:
    installed.look_in(Surroundings((sys.executable, "-u")))
    try:
        missing = registered_subjects([library(tmp_path)])["tiny/attention"].why_missing
    finally:
        installed.look_in(Surroundings())
    assert missing.startswith("it lives in a program of its own, ")
    assert missing.endswith("-u'. Leave --python and --host out")
    assert f"{Path(sys.executable).parent.parent.parent}/" not in missing


@pytest.mark.parametrize(("script", "exit_code", "shown"), [
    ("echo so it is; exit 1", 0, "confirmed"), ("echo 'Node.js v20.20.2' >&2; exit 1", 2, "broken"),
])
def test_the_scripts_of_a_program_are_run_by_its_interpreter(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                             script: str, exit_code: int, shown: str) -> None:
    folder = library(tmp_path, command="sh host.sh")
    (folder / "tiny" / "shows.mjs").write_text(script, encoding="utf-8")
    (folder / "tiny" / "findings.yaml").write_text(
        "findings:\n  - {id: one, says: S., subjects: ['*'], clauses: ['*'], script: shows.mjs, documented: 'no'}\n",
        encoding="utf-8")
    assert main(["confirm", "tiny", "--implementations", str(folder)]) == exit_code
    assert capsys.readouterr().out.startswith(f"{shown}  tiny/one")


ONNX = paths.folder("implementations") / "onnxruntime_web"
NEEDS_NODE = pytest.mark.skipif(
    not shutil.which("node") or not (ONNX / "node_modules").is_dir(),
    reason="node is not on the PATH, or `npm install` was not run in implementations/onnxruntime_web")


@NEEDS_NODE
def test_the_host_in_javascript_computes_attention() -> None:
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((2, 2, length, 4)).astype(np.float32) for length in (3, 5, 5))
    backwards = np.ascontiguousarray(key[:, :, ::-1])[:, :, ::-1]  # a view with a negative stride
    answer = load_target("onnxruntime_web/attention", Surroundings()).answer(
        Problem(DType.FLOAT32, query, backwards, np.broadcast_to(value[:1], value.shape), return_weights=True))
    logits = query @ key.swapaxes(-1, -2) / 2
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert answer.weights is not None
    np.testing.assert_allclose(answer.weights, weights, rtol=1e-5)
    np.testing.assert_allclose(answer.output, weights @ value[:1], rtol=1e-4, atol=1e-6)
    assert answer.mutated == ()


@NEEDS_NODE
def test_what_the_library_throws_is_told_without_frames_of_the_host() -> None:
    subject = load_target("onnxruntime_web/attention", Surroundings())
    with pytest.raises(SubjectRaised, match="scale must be greater than 0") as raised:
        subject.answer(small().but(scale=-1.0))
    assert "operators.mjs" in raised.value.traceback
    assert "protocol.mjs" not in raised.value.traceback


@NEEDS_NODE
def test_a_name_that_the_host_does_not_know_is_told_with_the_nearest(tmp_path: Path) -> None:
    manifest = MANIFEST.format(command=f"node {ONNX}/host.mjs", more="").replace(": attend", ": atention")
    library(tmp_path)
    (tmp_path / "tiny" / "manifest.yaml").write_text(manifest, encoding="utf-8")
    with pytest.raises(TargetError, match=r"there is no 'atention' in it.*Did you mean 'attention'\?"):
        summoned(tmp_path)
