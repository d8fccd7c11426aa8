"""`attnspec init` reads in its source what a function takes of the parameters that it is handed."""

from __future__ import annotations

import textwrap

import pytest
from attnspec.scaffold.examined import ExaminedFunction
from attnspec.scaffold.lookup import TheirParameter
from attnspec.scaffold.parameters.trees import find_parts

HEADS = {'p["query"]', 'p["key"]', 'p["value"]'}
OUT = 'p["out"]'


def find_parts_taken(body: str, *helpers: tuple[str, str]) -> set[str]:
    """What `def attend(p, x)` with this body takes of `p`. helpers: name and source of functions of its module."""
    sources = [f"def attend(p, x):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}",
               *(textwrap.dedent(source).strip() for _, source in helpers)]
    calls = {name: place for place, (name, _) in enumerate(helpers, start=1)}
    functions = [ExaminedFunction(source, _parameters(source), calls) for source in sources]
    return {"".join(path) for path in find_parts(functions, 0, {"p": ("p",)})}


def _parameters(source: str) -> tuple[TheirParameter, ...]:
    listed = source.partition("(")[2].partition(")")[0].split(", ")
    return tuple(TheirParameter(name) for name in listed)


KEYS = '("query", "key", "value")'
LOOPS = {
    "a comprehension": f"q, k, v = [x @ p[name] for name in {KEYS}]",
    "a generator that a call takes": f"q, k, v = tuple(x @ p[name] for name in {KEYS})",
    "a dict of them": f"heads = {{name: x @ p[name] for name in {KEYS}}}",
    "a for loop": f"for name in {KEYS}:\n    w = p[name]\n    heads.append(x @ w)",
    "a list": 'q, k, v = [x @ p[name] for name in ["query", "key", "value"]]',
    "parts and not keys": 'q, k, v = (x @ w for w in (p["query"], p["key"], p["value"]))',
    "pairs": f'q, k, v = (x @ p[name] + n for name, n in {(("query", 1), ("key", 2), ("value", 3))})',
    "map": f"project = lambda name: x @ p[name]\nq, k, v = map(project, {KEYS})",
    "map over a lambda": f"q, k, v = map(lambda name: x @ p[name], {KEYS})",
}


@pytest.mark.parametrize("way", LOOPS)
def test_keys_of_a_loop_are_read(way: str) -> None:
    assert find_parts_taken(f'{LOOPS[way]}\nreturn x @ p["out"]') == HEADS | {OUT}


def test_the_letters_of_a_word_are_keys() -> None:
    assert find_parts_taken('q, k, v = (x @ p["w" + letter] for letter in "qkv")') == {'p["wq"]', 'p["wk"]', 'p["wv"]'}


def test_a_key_that_is_put_together_is_read() -> None:
    assert find_parts_taken('for letter in "qk":\n    x @ p[f"w_{letter}"]["kernel"]') == {
        'p["w_q"]["kernel"]', 'p["w_k"]["kernel"]'}


INNER = {
    "that is handed a part": 'def linear(w, y):\n    return y @ w["kernel"] + w["bias"]\nreturn linear(p["out"], x)',
    "that is handed a key":
        'def linear(y, name):\n    return y @ p[name]["kernel"] + p[name]["bias"]\nreturn linear(x, name="out")',
    "that is a lambda": 'linear = lambda w: x @ w["kernel"] + w["bias"]\nreturn linear(p["out"])',
    "that is handed on":
        'def linear(y):\n    w = p["out"]\n    return y @ w["kernel"] + w["bias"]\nreturn vmap(linear)(x)',
}


@pytest.mark.parametrize("way", INNER)
def test_a_function_inside_is_followed(way: str) -> None:
    assert find_parts_taken(INNER[way]) == {'p["out"]["kernel"]', 'p["out"]["bias"]'}


def test_a_function_beside_it_is_handed_parts_and_keys() -> None:
    linear = ("linear", 'def linear(tree, name, y):\n    return y @ tree[f"{name}_proj"]["w"]')
    assert find_parts_taken('return linear(p["attn"], "q", x)', linear) == {'p["attn"]["q_proj"]["w"]'}


def test_a_part_taken_apart_by_a_key_that_nobody_can_read_is_kept() -> None:
    assert find_parts_taken('p = p["attn"]\nq, k, v = (x @ p[name] for name in NAMES)\nreturn x @ p["out"]') == {
        'p["attn"]', 'p["attn"]["out"]'}


def test_a_function_that_calls_itself_is_read_to_an_end() -> None:
    assert find_parts_taken('def loop(w):\n    return loop(w["next"])\nreturn loop(p["first"])')
