"""The worked example of a gate: a bug that the usual test passes, the page that names it, and the kernel mended."""

from __future__ import annotations

import pytest
import yaml
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from helpers.places import CHECKOUT

EXAMPLE = CHECKOUT / "docs" / "examples" / "gate"
CLAUSE = "numerics.far_below_zero"


def verdict_on(module: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Verdict, list[str]]:
    monkeypatch.chdir(EXAMPLE)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    target = f"kernel.{module}:attend"
    engine = Engine(Plan((target,), clauses=(CLAUSE,), dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    outcome = engine.try_item(Item(target, CLAUSE, "float32"))
    return outcome.verdict, [like.fault for like in outcome.evidence.like] if outcome.evidence else []


def test_the_bug_is_convicted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, like = verdict_on("attention", monkeypatch)
    assert (verdict, like[0]) == (Verdict.VIOLATED, "blocks_start_at_zero")


def test_the_mended_kernel_is_acquitted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_on("mended", monkeypatch) == (Verdict.HELD, [])


def test_the_two_kernels_differ_in_the_bug_alone() -> None:
    wrong, right = ((EXAMPLE / "kernel" / f"{name}.py").read_text(encoding="utf-8").splitlines()[1:]
                    for name in ("attention", "mended"))
    assert len([1 for one, other in zip(wrong, right, strict=True) if one != other]) == 1


def test_the_usual_check_does_not_see_the_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    scope: dict[str, object] = {}
    text = (EXAMPLE / "tests" / "test_allclose.py").read_text(encoding="utf-8")
    exec(compile(text, "test_allclose.py", "exec"), scope)
    test = scope["test_attention_is_close_to_its_definition"]
    assert callable(test)
    test()


def test_the_page_of_the_first_run_is_there_and_names_the_bug() -> None:
    page = (EXAMPLE / "failing.html").read_text(encoding="utf-8")
    assert "The running maximum starts at 0, not at -inf." in page
    assert "kernel.attention:attend does not conform" in page


def test_the_workflow_uses_the_action_with_inputs_that_it_has() -> None:
    action = yaml.safe_load((CHECKOUT / "action.yml").read_text(encoding="utf-8"))
    workflow = yaml.safe_load((EXAMPLE / ".github/workflows/attention.yml").read_text(encoding="utf-8"))
    [step] = [step for step in workflow["jobs"]["conformance"]["steps"] if "attnspec" in step.get("uses", "")]
    assert set(step["with"]) <= set(action["inputs"])
