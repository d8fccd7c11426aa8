"""Every call counts: what a function does once, while it is asked something outside of a trial, fails it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.hosting import client
from attnspec.problems.problem import Array
from attnspec.questions.asker import Reply
from attnspec.ranking.jobs import KernelWorker
from attnspec.record.events import KernelStanding
from attnspec.record.outcome import Outcome
from attnspec.subjects.call import Call
from attnspec.subjects.watching import GIVEN_UP_SENTENCE, Asking, incidents_of, watch_subject
from helpers.subjects import subject_of

SOUND = """
import os, signal, time
import numpy as np

calls = 0

def sound(query, key, value, mask=None, causal=False):
    heads = query.shape[1] // key.shape[1]
    key, value = (np.repeat(each, heads, 1).astype(np.float64) for each in (key, value))
    scores = query.astype(np.float64) @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    most = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e300)
    weights = np.exp(scores - most)
    return (weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ value).astype(query.dtype)

def attend(query, key, value, mask=None, causal=False):
    global calls
    calls += 1
    output = sound(query, key, value, mask, causal)
    {what}
    return output
"""
ONCE = {
    "if calls == 2: os._exit(3)": (Verdict.CRASHED, "exit code 3"),
    "if calls == 20: os.kill(os.getpid(), signal.SIGSEGV)": (Verdict.CRASHED, "(SIGSEGV), in call 20, while it was"),
    "if calls == 20: time.sleep(1e6)": (Verdict.TIMED_OUT, "in call 20, while it was asked what it takes"),
    "if calls == 5: [][3]": (Verdict.ERRORED, "IndexError: list index out of range, in call 5"),
    "if calls == 5: return output[:1, :1, :1]": (Verdict.VIOLATED, "in call 5"),
    "if calls == 20: output[...] = np.nan": (Verdict.VIOLATED, "NaN stood in its output for finite inputs, in call 20"),
    "": (Verdict.HELD, ""),
}
CLAUSE = "attention.shape"


@pytest.fixture(autouse=True)
def no_host_is_left() -> Iterator[None]:
    """Hosts end with the test that started them."""
    yield
    client.close_all()


def outcomes_of(folder: Path, source: str, *clauses: str) -> list[Outcome]:
    """What comes of a function `attend`, clause after clause."""
    target = f"{folder / 'mine.py'}:attend"
    (folder / "mine.py").write_text(source, encoding="utf-8")
    plan = Plan((target,), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE, deadline=2.0)
    engine = Engine(plan)
    return [engine.try_item(Item(target, clause, "float32")) for clause in clauses]


@pytest.mark.family(1)
@pytest.mark.parametrize("what", [pytest.param(what, marks=pytest.mark.nightly) if "sleep" in what else what
                                  for what in ONCE])
def test_what_happens_once_while_it_is_asked_fails_it(what: str, here: Path) -> None:
    outcomes = outcomes_of(here, SOUND.replace("{what}", what), "attention.definition", CLAUSE)
    verdict, words = ONCE[what]
    if verdict is Verdict.HELD:
        assert [each.verdict for each in outcomes] == [Verdict.HELD] * 2
    else:
        assert any(each.verdict is verdict for each in outcomes)
        assert any(words in each.reason for each in outcomes), [each.reason for each in outcomes]



def fail(*_: object) -> Reply:
    """A question that fails of itself."""
    raise KeyError("x")


LIMITED = {"T": "query.shape[2] % 16", "S": "key.shape[2] % 16 or key.shape[2] < 4"}


@pytest.mark.family(1)
@pytest.mark.parametrize("axis", LIMITED)
def test_a_function_that_restricts_one_axis_is_asked_all_the_same(axis: str, here: Path) -> None:
    what = f"if {LIMITED[axis]}: raise ValueError('this length {axis} is not taken')"
    [outcome] = outcomes_of(here, SOUND.replace("{what}", what), "masking.definition")
    assert outcome.verdict in (Verdict.HELD, Verdict.INAPPLICABLE, Verdict.NO_CLAIM), outcome.reason


def test_a_question_that_fails_of_itself_costs_one_item(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{here / 'mine.py'}:attend"
    (here / "mine.py").write_text(SOUND.replace("{what}", ""), encoding="utf-8")
    plan = Plan((target,), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE)
    monkeypatch.setattr("attnspec.questions.undeclared.ask_mask_with_causal", fail)
    engine, item = Engine(plan), Item(target, CLAUSE, "float32")
    with pytest.raises(KeyError):
        engine.try_item(item)
    assert engine.try_item(item).verdict is Verdict.HELD
    assert "mask_with_causal" not in engine.card(target).probed
    assert engine.card(target).probed["hidden_row"]


def test_an_error_of_attnspecs_own_costs_a_ranked_kernel_one_item(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{here / 'mine.py'}:attend"
    (here / "mine.py").write_text(SOUND.replace("{what}", ""), encoding="utf-8")
    monkeypatch.setattr("attnspec.questions.undeclared.ask_mask_with_causal", fail)
    plan = Plan((target,), clauses=(CLAUSE, "attention.definition"), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE)
    ranked = KernelWorker(plan, 0, lambda _: None).rank(target)
    assert (ranked.verdict, ranked.held) == (KernelStanding.NOT_JUDGED, 1)
    assert "attnspec itself failed at attention" in ranked.reason
    assert "KeyError" in ranked.reason


@pytest.mark.parametrize(("values", "is_noted"), [(3, True), (2, False)])
def test_an_answer_without_a_value_for_each_key_is_no_incident(*, values: int, is_noted: bool) -> None:
    answers = iter([np.nan, 0.0])

    def attend(query: Array, _key: Array, value: Array) -> Array:
        return np.full((*query.shape[:-1], value.shape[-1]), next(answers), query.dtype)

    subject = watch_subject(subject_of(attend, frozenset(), dtypes=(DType.FLOAT32,)))
    incidents = incidents_of(subject)
    assert incidents
    key, value = (np.zeros((1, 1, length, 2), np.float32) for length in (3, values))
    with incidents.during(Asking.CAUSES):
        subject.callee.perform(Call({"query": key, "key": key, "value": value}, {}, DType.FLOAT32, ()))
    assert bool(incidents.pop_met()) is is_noted


@pytest.mark.nightly
def test_of_a_function_that_always_hangs_the_rest_is_not_put(here: Path) -> None:
    began = time.monotonic()
    outcomes = outcomes_of(here, SOUND.replace("{what}", "time.sleep(1e6)"), CLAUSE, "attention.definition",
                           "attention.finite", "masking.definition", "causal.no_lookahead")
    assert outcomes[0].verdict is Verdict.TIMED_OUT
    assert (outcomes[-1].verdict, outcomes[-1].reason) == (Verdict.NOT_RUN, GIVEN_UP_SENTENCE)
    assert time.monotonic() - began < 40


def test_a_process_begins_though_python_is_told_to_keep_folders_away(
        here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    [outcome] = outcomes_of(here, SOUND.replace("{what}", ""), CLAUSE)
    assert outcome.verdict is Verdict.HELD


LATER = """
    import threading
    def spoil():
        time.sleep(0.03)
        output[...] = 7
    threading.Thread(target=spoil).start()
"""
AGED = "if time.monotonic() - began > 3: output = output + 1"


@pytest.mark.parametrize(("what", "words"), [
    (LATER, "its answer had changed 0.1 s after it was returned, in call 1,"),
    pytest.param(AGED, "its answer was another one than before", marks=pytest.mark.nightly)])
def test_what_changes_with_time_is_noticed(what: str, words: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnspec.subjects.watching.REPEATED_EVERY", 0.0)
    target = f"{here / 'mine.py'}:attend"
    source = SOUND.replace("calls = 0", "calls = 0\nbegan = time.monotonic()", 1).replace("{what}", what)
    (here / "mine.py").write_text(source, encoding="utf-8")
    engine = Engine(Plan((target,), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    item = Item(target, "causal.no_lookahead", "float32")  # its answers are remembered
    reasons = [engine.try_item(item).reason]
    until = time.monotonic() + 5
    while words not in reasons[-1] and time.monotonic() < until:
        time.sleep(0.5)
        reasons.append(engine.try_item(Item(target, CLAUSE, "float32")).reason)
    assert any(words in each for each in reasons), reasons


def test_a_drawn_value_that_the_clause_does_not_draw_is_refused(here: Path) -> None:
    target = f"{here / 'mine.py'}:attend"
    (here / "mine.py").write_text(SOUND.replace("{what}", ""), encoding="utf-8")
    engine = Engine(Plan((target,), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    recipe = "B1,H1,Hkv1,T3,S3,D4,Dv4;mask=none;families=normal;seed=1;cut=999"
    with pytest.raises(UsageError, match=f"the recipe has cut=999, and the clause '{CLAUSE}' draws no such value"):
        engine.replay(Item(target, CLAUSE, "float32"), recipe)


def test_a_process_that_cannot_write_its_files_ends_at_once_and_says_why(here: Path) -> None:
    (here / "mine.py").write_text(SOUND.replace("{what}", ""), encoding="utf-8")
    words = ["check", "mine.py:attend", "--clause", CLAUSE, "--dtype", "float32", "--no-record", "-n", "1"]
    done = subprocess.run([sys.executable, "-m", "attnspec", *words], text=True, check=False, capture_output=True,
                          timeout=60, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 2
    assert "File too large" in done.stdout + done.stderr
