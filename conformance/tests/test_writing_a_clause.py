"""What docs/writing-a-clause.md shows is done here: a clause is added by editing YAML alone, and judges."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core import paths
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.problems.families import FAMILIES, EntryFamily
from attnspec.problems.make import BIASES, MASKS, BiasRecipe, MaskRecipe
from attnspec.record.outcome import Outcome
from attnspec.vocabulary.signature import Meaning, meaning_of, parameters_of
from attnspec.vocabulary.tables import DRAWS, LAYER_TRANSFORMS, MEANINGS, RELATIONS, TRANSFORMS
from helpers.places import CHECKOUT

PAGE = CHECKOUT / "docs" / "writing-a-clause.md"
SUBJECTS = '''
import numpy as np

def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    if causal:
        later = ~np.tri(*logits.shape[-2:], dtype=bool)
        logits[..., later] = -np.inf
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value

def sees_its_batch(query, key, value, *, causal=False):
    """Entries of a larger batch are summed in another order: right within rounding, not the same to the last bit."""
    return attend(query, key, value, causal=causal) if len(query) == 1 else attend(
        query[..., ::-1], key[..., ::-1], value, causal=causal)

def first_entry_only(query, key, value, *, causal=False):
    """The causal mask is applied to the first batch entry only."""
    parts = [attend(query[b:b + 1], key[b:b + 1], value[b:b + 1], causal=causal and b == 0) for b in range(len(query))]
    return np.concatenate(parts)
'''


def row_of_drawn(meaning: Meaning) -> str:
    """The page's row about numbers of a meaning: which words give them, which arguments want them."""
    wanting: dict[str, list[str]] = {}
    for name, word in {**TRANSFORMS, **LAYER_TRANSFORMS, **RELATIONS}.items():
        for argument, parameter in parameters_of(word).items():
            if meaning_of(parameter.hint) == meaning:
                wanting.setdefault(argument, []).append(f"`{name}`")
    wanted = "; ".join(f"`{argument}` of {', '.join(names)}" for argument, names in wanting.items()) or "no word"
    return f"| {meaning.noun} | {', '.join(f'`{each}`' for each in DRAWS if MEANINGS[each] == meaning)} | {wanted} |"


def test_the_page_says_what_each_drawn_value_is_for() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("### Which drawn values")[2].partition("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [row_of_drawn(meaning) for meaning in dict.fromkeys(MEANINGS[each] for each in DRAWS)]


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """The shipped spec with the page's example at the end of the file that the page names."""
    folder = Path(shutil.copytree(paths.folder("spec"), tmp_path / "spec"))
    with (folder / "causal.yaml").open("a", encoding="utf-8") as file:
        file.write("\n" + example("causal.yaml"))
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The page's file of own clauses."""
    (tmp_path / "mine.yaml").write_text(example("mine.yaml"), encoding="utf-8")
    return tmp_path / "mine.yaml"


def example(name: str) -> str:
    """The example that the page gives for a file of this name."""
    found = re.search(rf"<!-- example: {name} -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def judged(clause: str, function: str, folder: Path, **law: object) -> Outcome:
    (folder / "subjects.py").write_text(SUBJECTS)
    engine = Engine(Plan(targets=(f"{folder / 'subjects.py'}:{function}",), clauses=(clause,), dtypes=(DType.FLOAT32,),
                       effort=Effort.QUICK, **law))  # type: ignore[arg-type]  # where clauses come from
    [item] = engine.items()
    return engine.try_item(item)


@pytest.mark.parametrize(("what", "known"), [("families", FAMILIES), ("masks", MASKS), ("biases", BIASES)])
def test_the_page_and_list_say_what_families_masks_and_biases_mean(
    what: str, known: Mapping[str, EntryFamily | MaskRecipe | BiasRecipe], capsys: pytest.CaptureFixture[str],
) -> None:
    meanings = {name: each.meaning for name, each in known.items()}
    table = PAGE.read_text(encoding="utf-8").partition(f"| `{what}` | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE)) == meanings
    assert main(["list", what]) == 0
    assert dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()) == meanings


def test_a_clause_added_in_yaml_alone_is_held_by_a_sound_function(extended: Path) -> None:
    outcome = judged("causal.every_batch_entry", "attend", extended.parent, spec=str(extended))
    assert outcome.verdict is Verdict.HELD


@pytest.mark.nightly
def test_a_clause_of_ones_own_is_held_by_who_keeps_it(own: Path) -> None:
    outcome = judged("mine.batch_invariant", "attend", own.parent, spec_add=(str(own),))
    assert outcome.verdict is Verdict.HELD


@pytest.mark.nightly
def test_an_own_clause_is_violated_where_no_shipped_one_is(own: Path) -> None:
    outcome = judged("mine.batch_invariant", "sees_its_batch", own.parent, spec_add=(str(own),))
    assert outcome.verdict is Verdict.VIOLATED
    shipped = judged("attention.batch_is_independent", "sees_its_batch", own.parent, spec_add=(str(own),))
    assert shipped.verdict is Verdict.HELD


def test_a_clause_added_in_yaml_alone_is_violated_by_a_faulty_function(extended: Path) -> None:
    outcome = judged("causal.every_batch_entry", "first_entry_only", extended.parent, spec=str(extended))
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence
    assert outcome.evidence.measured
    assert outcome.evidence.measured.margin > 1
