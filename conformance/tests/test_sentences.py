"""Sentences for somebody else to read are drawn from what a user sees, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import CHECKOUT, draw_sentences, of_code, of_document, of_page, of_yaml


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.nightly
def test_a_seed_draws_the_same_sentences_from_every_kind_of_source() -> None:
    found = draw_sentences(5, 13)
    assert found == draw_sentences(5, 13)
    assert found != draw_sentences(5, 14)
    suffixes = [each.path.suffix for each in found]
    assert suffixes == [".md", ".yaml", ".yaml", ".html", ".py"]
    assert all(str(each).startswith(f"{each.path.relative_to(CHECKOUT)}:") for each in found)


def test_messages_are_drawn_from_code_and_docstrings_are_not(tmp_path: Path) -> None:
    code = written(tmp_path, "code.py", '"""Nobody who uses it will ever read this."""\nSAYS = f"the file {1} is not '
                                        'a"\\\n'
                   '    f" folder of clauses."\nLABEL = "a row of six short plain words"\n')
    assert [(each.line, each.text) for each in of_code(code)] == [(2, "the file … is not a folder of clauses.")]


def test_prose_is_drawn_from_documents_and_commands_are_not(tmp_path: Path) -> None:
    document = written(tmp_path, "page.md", "# A heading of six or more words.\n\nShort one. This sentence has more "
                                            "than six "
                       "words.\n\n- This item of a list has enough words, too.\n\n```\nThis is a command and no "
                       "sentence here.\n```\n")
    assert [(each.line, each.text) for each in of_document(document)] == [
        (3, "This sentence has more than six words."), (5, "This item of a list has enough words, too.")]


def test_pages_and_clauses_give_what_is_read_of_them(tmp_path: Path) -> None:
    page = written(tmp_path, "page.html", "{% if a %}\n<p>Each of {{ n }} squares <b>is one</b> implementation "
                                          "here.</p>\n")
    assert [(each.line, each.text) for each in of_page(page)] == [(2, "Each of … squares is one implementation here.")]
    clauses = written(tmp_path, "x.yaml", "clauses:\n- id: a.b\n  says: Every row of weights sums to exactly one.\n")
    assert [(each.line, each.text) for each in of_yaml(clauses)] == [(3, "Every row of weights sums to exactly one.")]
