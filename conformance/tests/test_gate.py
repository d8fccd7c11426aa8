"""`gate` in somebody's test file: two lines, and pytest says what the engine says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import attnspec
import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.runner.gate import gate
from attnspec.runner.session import one_thread
from attnspec.trials.trial import UNFINISHED_NOTE
from helpers.places import STUBS

FILE = """
from attnspec import gate
test_attention = gate("stub", clauses={clauses}, engine="stub_engine:Engine", strict={strict})
"""

SURROUNDINGS = {"PYTHONPATH": os.pathsep.join([str(STUBS), str(Path(attnspec.__file__).parents[1])]),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Of a pytest of the user's, with the attnspec that is tested here."""


def pytest_run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A pytest of the user's, in a folder of theirs."""
    (folder / "test_mine.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    # without the plugins that happen to be installed here: they take seconds and change what is printed
    path = SURROUNDINGS | {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    options = ("-p", "xdist.plugin", "-p", "attnspec.pytest_plugin", *options)
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options], cwd=folder, env=path,
                          capture_output=True, text=True, check=False)


def gated(folder: Path, *clauses: str, options: tuple[str, ...] = ("-rA",), strict: bool = False) -> str:
    text = FILE.format(clauses=[f"stub.{name}" for name in clauses], strict=strict)
    return pytest_run(folder, text, *options).stdout


def test_each_verdict_has_its_word_in_pytest(tmp_path: Path) -> None:
    out = gated(tmp_path, "held", "listed", "violated", "raised", "mended", "broken", "lacking", "vague", "advised")
    assert "4 failed, 2 passed, 3 skipped" in out
    for name in ("held", "listed"):
        assert f"PASSED test_mine.py::test_attention[stub-stub.{name}-float32]" in out
    for name in ("violated", "raised", "mended", "broken"):
        assert f"FAILED test_mine.py::test_attention[stub-stub.{name}-float32]" in out


def test_a_failure_shows_the_clause_and_no_stack(tmp_path: Path) -> None:
    out = gated(tmp_path, "violated")
    assert """stub.violated (spec/stub.yaml:2) is violated
  says: The stub's clause called violated holds.
  by: stub, float32
  case: B=1 H=1 T=1 S=2 D=1 Dv=1
  seen: 1 of 4 entries differ
  again: attnspec replay 'stub stub.violated float32 B1""" in out
    assert "Traceback" not in out
    assert "gate.py" not in out


def test_what_was_not_judged_is_skipped_with_its_reason(tmp_path: Path) -> None:
    out = gated(tmp_path, "lacking", "vague", "advised", options=("-rs",))
    assert "stub.lacking does not apply: takes no `mask`" in out
    assert "stub.vague could not be decided on any case: every case overflowed" in out
    assert "should clause stub.advised is violated: 1 of 4 entries differ" in out


def test_advice_fails_a_strict_gate(tmp_path: Path) -> None:
    assert "1 failed" in gated(tmp_path, "advised", strict=True)


def test_a_keyword_expression_and_xdist_work_as_everywhere(tmp_path: Path) -> None:
    out = gated(tmp_path, "held", "violated", "listed", options=("-n2", "-k", "held or listed"))
    assert "2 passed" in out


def test_the_outcome_travels_in_junit_also_under_xdist(tmp_path: Path) -> None:
    gated(tmp_path, "violated", options=("-n1", "--junitxml=out.xml"))
    [property_] = ET.parse(tmp_path / "out.xml").iter("property")
    outcome = json.loads(property_.attrib["value"])
    assert property_.attrib["name"] == "attnspec"
    assert (outcome["verdict"], outcome["clause"]) == ("violated", "stub.violated")


REAL = """
import numpy as np
from attnspec import gate

def attend(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ value

def unscaled(query, key, value):
    return attend(query * np.sqrt(query.shape[-1]).astype(query.dtype), key, value)

options = dict(clauses=["attention.shape", "attention.definition"], dtypes=["float32"], effort="quick")
test_good = gate(attend, **options)
test_bad = gate(unscaled, **options)
test_lambda = gate(lambda query, key, value: attend(query, key, value), **options)
"""


def test_a_function_of_the_test_file_itself_is_judged(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, REAL, "-rA", "--import-mode=importlib")
    assert "1 failed, 5 passed" in done.stdout
    assert "FAILED test_mine.py::test_bad[test_mine:unscaled-attention.definition-float32]" in done.stdout
    assert "PASSED test_mine.py::test_good[test_mine:attend-attention.definition-float32]" in done.stdout
    assert "attention.definition (spec/attention.yaml:" in done.stdout


@pytest.mark.parametrize(("options", "text"), [
    ({"effort": "quik"}, "'quik' is not a known effort. Did you mean 'quick'"),
    ({"dtypes": ["float23"]}, "'float23' is not a known dtype. Did you mean 'float32'"),
    ({"clauses": ["causal.no_lookahed"]}, "'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_looka"),
    ({"profiles": ["cor"]}, "'cor' is not a known profile. Did you mean 'core'"),
])
def test_a_mistyped_name_is_told_with_the_nearest(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        gate("numpy/attention", **options)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("many", [False, True])
def test_a_gate_takes_a_folder_of_adapters_or_several(tmp_path: Path, many: bool) -> None:
    folder = tmp_path / "gated_own"
    folder.mkdir()
    (folder / "manifest.yaml").write_text("library: Mine\nsubjects:\n  - id: attention\n    title: Mine\n"
                                          "    function: adapter:attend\n")
    (folder / "adapter.py").write_text("def attend(query, key, value): ...\n")
    for given in (str(tmp_path), tmp_path):
        test = gate("gated_own/attention", implementations=[given] if many else given, clauses=["attention.shape"],
                    effort="glance")
        [mark] = test.pytestmark  # type: ignore[attr-defined]
        assert mark.args[1][0].id.startswith("gated_own/attention-attention.shape")


def test_a_gate_takes_patterns_of_clauses() -> None:
    [mark] = gate("numpy/attention", clauses=["causal.*"], dtypes=["float32"]).pytestmark  # type: ignore[attr-defined]
    assert {parameter.id.partition("-")[2].partition(".")[0] for parameter in mark.args[1]} == {"causal"}


def test_a_gate_without_target_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="gate needs a target"):
        gate()


def cost(folder: Path, *options: str) -> list[str]:
    text = FILE.format(clauses=["stub.held", "stub.violated"], strict=False)
    lines = pytest_run(folder, text, "-o", "cache_dir=.cache", "-p", "cacheprovider", *options).stdout.splitlines()
    return [line for line in lines if line.startswith("attnspec gate")]


def test_a_gate_says_before_it_runs_what_it_will_cost(tmp_path: Path) -> None:
    told = "attnspec gate test_mine.py::test_attention: 2 items at effort quick; "
    assert cost(tmp_path) == [f"{told}how long they take is measured now and told the next time"]
    assert cost(tmp_path) == [f"{told}some 0 s of work, as last time"]


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_a_gate_ends_with_what_its_subjects_refuse(tmp_path: Path, options: tuple[str, ...]) -> None:
    shy = FILE.format(clauses=["stub.held"], strict=False).replace('gate("stub"', 'gate("shy"')
    assert "attnspec: shy refuses T ≠ S\n" in pytest_run(tmp_path, shy, *options).stdout


@pytest.mark.nightly
def test_xdist_says_what_a_gate_costs_as_well(tmp_path: Path) -> None:
    told = "attnspec gate test_mine.py::test_attention: 2 items; "
    assert cost(tmp_path, "-n2") == [f"{told}how long they take is measured now and told the next time"]
    assert cost(tmp_path, "-n2") == [f"{told}some 0 s of work, as last time"]


def test_a_run_without_a_gate_says_nothing_of_cost(tmp_path: Path) -> None:
    assert "attnspec gate" not in pytest_run(tmp_path, "def test_nothing(): pass").stdout


def test_one_thread_judges_and_the_rest_are_given_back() -> None:
    np = pytest.importorskip("numpy")
    threadpoolctl = pytest.importorskip("threadpoolctl")
    torch = pytest.importorskip("torch")
    assert np.ones((2, 2)) @ np.ones(2) is not None  # its BLAS is loaded

    def counts() -> list[int]:
        return [*(pool["num_threads"] for pool in threadpoolctl.threadpool_info()), torch.get_num_threads()]
    torch.set_num_threads(2)
    before = counts()
    with one_thread():
        assert set(counts()) == {1}
    assert counts() == before


THREADS = """
import sys
from attnspec import gate
from threadpoolctl import threadpool_info, threadpool_limits

SEEN = []

def threads():
    return {pool["num_threads"] for pool in threadpool_info()}

def attend(query, key, value):
    import numpy as np
    SEEN.append(threads())
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ value

def test_before():
    import numpy
    assert "torch" not in sys.modules
    threadpool_limits(limits=3)
    assert threads() == {3}

test_numpy = gate(attend, clauses=["attention.definition"], dtypes=["float32"])

def test_between():
    assert SEEN[-1] == {1}
    assert threads() == {3}

test_torch = gate("mine:attend", lift="torch", clauses=["attention.definition"], dtypes=["float32"])

def test_after():
    assert "torch" not in sys.modules  # it lives elsewhere, and its threads with it
    assert threads() == {3}
"""

MINE = """
import torch
def attend(query, key, value):
    assert torch.get_num_threads() == 1
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)
"""


@pytest.mark.nightly
def test_an_item_has_one_thread_and_other_tests_theirs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(MINE)
    assert "5 passed" in pytest_run(tmp_path, THREADS).stdout


HALVES = """
import numpy as np
def attend(query, key, value):
    logits = (query @ key.swapaxes(-1, -2)).astype(np.float32) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ value.astype(np.float32)).astype(query.dtype)
attend.dtypes = ["float16", "bfloat16"]
"""


def test_a_gate_and_a_check_of_the_same_effort_have_the_same_verdicts(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(HALVES, encoding="utf-8")
    clauses = ("attention.one_key", "attention.definition", "gradients.of_key")
    text = f"from attnspec import gate\ntest_it = gate('halves.py:attend', clauses={clauses})\n"
    out = pytest_run(tmp_path, text, "-rA").stdout
    passed = {line.partition("attend-")[2].rstrip("]") for line in out.splitlines() if line.startswith("PASSED")}
    engine = Engine(Plan((f"{tmp_path}/halves.py:attend",), clauses=clauses, effort=Effort.QUICK))
    held = {f"{item.clause}-{item.dtype}" for item in engine.items() if engine.try_item(item).verdict is Verdict.HELD}
    assert passed == held
    assert {"attention.one_key-float16", "attention.one_key-bfloat16"} <= held


def test_a_target_that_cannot_be_judged_fails_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def attend(q, k, v): return q @ k.T @ v\n", encoding="utf-8")
    clauses = ["attention.shape", "attention.finite", "attention.definition"]
    out = pytest_run(tmp_path, f"""
from attnspec import gate
test_attention = gate("mine.py:attend", clauses={clauses}, dtypes=["float32"])
""", "-rs").stdout
    assert "1 failed, 2 skipped" in out
    assert out.count("takes arrays with the axes (T, D)") == 1
    assert "mine.py:attend cannot be judged; why says [mine.py:attend-attention.shape-float32]" in out


PLAIN_PYTEST = "import sys, pytest\nsys.exit(pytest.main())\n"
"""As the script: the working directory is not on its path."""


@pytest.mark.nightly
def test_a_file_target_imports_from_where_plain_pytest_starts(tmp_path: Path) -> None:
    text = """
from attnspec import gate
test_it = gate("scratch/mine.py:attend", clauses=["attention.shape"], dtypes=["float32"])
"""
    files = {"tests/test_mine.py": text, "bin/script.py": PLAIN_PYTEST, "pytest.ini": "[pytest]\n",
             "scratch/mine.py": "from attention.of_numpy import attend\n", "attention/__init__.py": "",
             "attention/of_numpy.py": HALVES.partition("attend.dtypes")[0]}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    options = ["-p", "attnspec.pytest_plugin", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run([sys.executable, "bin/script.py", *options], cwd=tmp_path, text=True, check=False,
                          capture_output=True, env=SURROUNDINGS)
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(("options", "says"), [
    ('effort="quik"', "E   attnspec.core.errors.UsageError: 'quik' is not a known effort. Did you mean 'quick'?"),
    ('baseline="knwon.yaml"', "E   attnspec.core.errors.UsageError: knwon.yaml: there is no such file. attnspec "
                               "check TARGET --baseline FILE makes one.")])
def test_a_mistake_in_a_gate_is_told_without_a_stack(tmp_path: Path, options: str, says: str) -> None:
    out = pytest_run(tmp_path, f"from attnspec import gate\ntest_it = gate('numpy/attention', {options})\n").stdout
    assert says in out
    assert "test_mine.py:2: in <module>" in out
    assert "gate.py" not in out
    assert "engine.py" not in out


@pytest.mark.nightly
def test_a_gate_says_at_its_end_that_no_gradients_were_judged(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(HALVES, encoding="utf-8")
    text = """
from attnspec import gate
test_it = gate("halves.py:attend", clauses="gradients.of_key", effort="glance")
"""
    assert ("attnspec: gradients of halves.py:attend were not judged: halves.py:attend has no backward pass"
            ) in pytest_run(tmp_path, text).stdout


def test_a_gate_that_judges_nothing_fails_and_says_why(tmp_path: Path) -> None:
    text = """
from attnspec import gate
test_it = gate("numpy/paper", clauses="paged.definition", dtypes="float32", effort="glance")
"""
    done = pytest_run(tmp_path, text)
    assert "1 skipped" in done.stdout
    assert "test_it judged nothing of numpy/paper, and is no gate: numpy/paper takes no block_table" in done.stdout
    assert done.returncode == 1


INTERRUPTED = """
import os, signal
import numpy as np
from attnspec import gate

failed = False
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background


def attend(query, key, value):
    global failed
    if failed:
        os.kill(os.getpid(), signal.SIGINT)
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    output = weights / weights.sum(axis=-1, keepdims=True) @ value
    failed = not np.array_equal(query, np.rint(query))
    return output + failed


attend.grouped = False
test_attention = gate(attend, clauses="attention.definition", dtypes="float32")
"""


def test_an_interrupted_gate_tells_what_it_has_found(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, INTERRUPTED)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "Exit: attention.definition (spec/attention.yaml:" in done.stdout
    assert UNFINISHED_NOTE in done.stdout
