"""The functions of docs/serving.md are judged as they stand there, and its table is the contract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attnspec.core.cache_keywords import CACHES
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.core.segment_keywords import SEGMENTS
from attnspec.core.serving_keywords import SERVING
from attnspec.engine.engine import Engine
from helpers.places import CHECKOUT

GUIDE = (CHECKOUT / "docs" / "serving.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- example: (\S+\.py), judged by (\S+) -->\n```python\n(.*?)```", GUIDE, re.DOTALL)


def verdicts(path: Path, clauses: str) -> dict[str, Verdict]:
    """Of the clauses that apply, by clause and dtype, at effort quick."""
    engine = Engine(Plan((f"{path}:attend",), clauses=(clauses, "attention.definition"), effort=Effort.QUICK))
    found = {f"{item.clause} {item.dtype}": engine.try_item(item).verdict for item in engine.items()}
    return {name: verdict for name, verdict in found.items() if verdict is not Verdict.INAPPLICABLE}


@pytest.mark.parametrize(("name", "clauses", "source"), EXAMPLES, ids=[name for name, *_ in EXAMPLES])
def test_a_worked_example_conforms(name: str, clauses: str, source: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(source, encoding="utf-8")
    found = verdicts(path, clauses)
    assert len(found) > 10
    assert {item: verdict for item, verdict in found.items() if verdict is not Verdict.HELD} == {}


def test_an_example_that_forgets_the_lengths_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "lengths.py"]
    path = tmp_path / "forgetful.py"
    path.write_text(source.replace("own[:, None, None], logits, -np.inf", "True, logits, -np.inf"), encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "lengths.definition").values()


def test_the_table_has_every_keyword_of_serving() -> None:
    for word in (*SERVING, *CACHES, *SEGMENTS):
        assert f"| `{word.name}` | {word.shape} | " in GUIDE
        assert word.name in KEYWORDS


def test_a_decoder_that_counts_new_keys_alone_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "decoding.py"]
    path = tmp_path / "uncounted.py"
    path.write_text(source.replace("places < key_lengths", "places < past + key_lengths"), encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "past.lengths_count_it").values()
