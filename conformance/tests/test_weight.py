"""What must stay light: pytest with attnspec installed, `import attnspec`, `attnspec list` and `attnspec explain`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"hypothesis", "numpy", "torch", "jax", "ml_dtypes", "jinja2"}
PROBE = "import sys, json; {}; print(); print(json.dumps(sorted(set(sys.modules) & {})))"


def imported(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter has imported after the statement."""
    code = PROBE.format(statement, HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.family(4)
@pytest.mark.parametrize("statement", [
    "import attnspec", "import attnspec.pytest_plugin", "import attnspec.spec.load", "import attnspec.record.read",
    "import attnspec.cli", "import attnspec.runner.gate", "import attnspec.runner.session",
    "import attnspec.engine.engine", "import attnspec.subjects.registry",
])
def test_importing_is_light(statement: str) -> None:
    assert imported(statement) == set()


@pytest.mark.family(3)
@pytest.mark.parametrize("words", [
    # faults that show at certain sizes stand beside their aspect's other faults, so that `list faults` loads NumPy
    ["list"], ["list", "clauses"], ["list", "profiles"], ["list", "words"],
    ["explain", "causal.no_lookahead"], ["--help"], ["check", "--help"],
], ids=" ".join)
def test_looking_around_is_light(words: list[str]) -> None:
    assert imported(f"from attnspec.cli import main; assert main({words}) == 0") == set()


def test_the_plan_of_a_run_is_made_without_a_framework() -> None:
    assert imported("from attnspec.core.plan import Plan; from attnspec.engine.engine import Engine; "
                    "assert Engine(Plan(('torch/sdpa', 'jax/attention'))).items()") == set()


@pytest.mark.family(1)
@pytest.mark.parametrize("target", ["torch/sdpa", "jax/attention"])
def test_judging_imports_no_framework(target: str) -> None:
    pytest.importorskip(target.partition("/")[0])
    judged = ("from attnspec.core.nouns import Effort; from attnspec.core.plan import Plan; "
              "from attnspec.engine.engine import Engine; "
              f"engine = Engine(Plan(('{target}',), clauses=('scale.explicit',), effort=Effort.GLANCE)); "
              f"item, *_ = engine.items(); assert engine.try_item(item).cases; engine.card('{target}')")
    assert not {"torch", "jax"} & imported(judged)


@pytest.mark.parametrize("name", ["numpy", "hypothesis"])
def test_these_tests_can_fail(name: str) -> None:
    assert name in imported(f"import {name}")
