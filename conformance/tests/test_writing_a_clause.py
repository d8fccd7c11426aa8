"""What docs/writing-a-clause.md shows is done here: a clause is added by editing YAML alone, and judges."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from attnspec import home
from attnspec.court.court import Court
from attnspec.ground.nouns import DType, Effort, Verdict
from attnspec.ground.plan import Plan
from attnspec.record.outcome import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-clause.md"
SUBJECTS = '''
import numpy as np

def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    if causal:
        later = ~np.tri(*logits.shape[-2:], dtype=bool)
        logits[..., later] = -np.inf
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value

def first_entry_only(query, key, value, *, causal=False):
    """The triangle is written into the first batch entry."""
    parts = [attend(query[b:b + 1], key[b:b + 1], value[b:b + 1], causal=causal and b == 0) for b in range(len(query))]
    return np.concatenate(parts)
'''


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """The shipped spec with the page's example at the end of the file that the page names."""
    folder = Path(shutil.copytree(home.folder("spec"), tmp_path / "spec"))
    example = re.search(r"<!-- example: (\S+) -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    with (folder / example[1]).open("a", encoding="utf-8") as file:
        file.write("\n" + example[2])
    (tmp_path / "subjects.py").write_text(SUBJECTS)
    return folder


def judged(spec: Path, function: str) -> Outcome:
    plan = Plan(targets=(f"{spec.parent / 'subjects.py'}:{function}",), clauses=("causal.every_batch_entry",),
                dtypes=(DType.FLOAT32,), effort=Effort.QUICK, spec=str(spec))
    court = Court(plan)
    [item] = court.items()
    return court.try_item(item)


def test_a_clause_added_in_yaml_alone_is_held_by_a_sound_function(extended: Path) -> None:
    assert judged(extended, "attend").verdict is Verdict.HELD


def test_a_clause_added_in_yaml_alone_is_violated_by_a_faulty_function(extended: Path) -> None:
    outcome = judged(extended, "first_entry_only")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence
    assert outcome.evidence.measured
    assert outcome.evidence.measured.margin > 1
