"""`attnspec explain WORD` says what a word of clauses does, what it is told, and which clauses have it."""

from __future__ import annotations

import pytest
from attnspec.cli.completion import list_vocabulary
from helpers.commands import Cli


@pytest.mark.parametrize(("word", "lines"), [
    ("agree_on_prefix", ["agree_on_prefix  (a relation, written under `then`)", "arguments:",
                         "  whole: the name of one of this clause's runs",
                         "  rows_through: the name of a value drawn under `given: draw:`",
                         "clauses that use it: causal.prefix_is_truncation"]),
    ("drop_keys", ["drop_keys  (a transform, written under `runs`)"]),
    ("has_no_drift", ["  direction: one of temperature, gain, mixing, bias", "  false_alarm: number from 1e-15 to 0.5",
                      "  run: the name of one of this clause's runs, original by default"]),
    ("other_content", ["  arrays: a list, each one of query, key, value"]),
    ("shuffle", ["shuffle  (a drawn value, named under `given: draw:`)"])])
def test_a_word_tells_what_it_does_what_it_takes_and_who_uses_it(cli: Cli, word: str, lines: list[str]) -> None:
    code, out, _ = cli("explain", word)
    assert code == 0
    assert set(lines) <= {line.partition(" and ")[0] for line in out.splitlines()}


def test_every_word_can_be_explained(cli: Cli) -> None:
    for word in list_vocabulary():
        assert cli("explain", word.name)[1].startswith(f"{word.name}  (")
