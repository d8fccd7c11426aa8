"""What `attnspec init` asks a host in Python, and what comes back, as docs/protocol.md says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.host.frames import Entries
from attnspec.hosting.client import Client, NotLoadedThere

TEXT = """
import numpy as np

class Config:
    def __init__(self, heads, width: int = 8, window=(-1, float("inf")), *, kernel=np.matmul): ...

class Layer:
    def __init__(self, config: Config): ...
    def __call__(self, query, mask=None): ...

def init_params(width): ...

def projected(weights, query):
    return query @ weights["w"]

def attend(query, key, value, params=None, **more):
    query[0] = 1
    return {"output": query * 2, "state": [query[0, 0, 0] > 0, "text", None]}

def outer(query, key, value, params):
    return projected(params, query)
"""


def examined(name: str, *, sources: bool = False) -> Mapping[str, Any]:
    client = Client(Surroundings())
    loaded = client.load({"from": {"text": TEXT}, "name": name})
    told, _ = client.request({"do": "examine", "of": loaded.number, "sources": sources}, most=2**20)
    client.close()
    return told


def test_a_text_is_loaded_and_whatever_it_returns_is_told_by_its_parts() -> None:
    client = Client(Surroundings())
    assert client.load({"from": {"text": TEXT}, "name": "attend"}).description["qualname"] == "attend"
    call = {"do": "call", "of": 0, "lift": "", "device": "", "dtype": "float32", "inputs": [0, 0, 0], "keywords": {},
            "shapes": []}
    told, arrays = client.request(call, [Entries("float32", np.zeros((1, 1, 2, 3), np.float32))], most=2**20)
    client.close()
    assert told["told"] == {"type": "dict", "parts": [
        {"path": ['["output"]'], "type": "ndarray", "shape": [1, 1, 2, 3], "array": 0},
        {"path": ['["state"]', "[0]"], "type": "ndarray", "shape": [3]}]}
    assert (told["ended"], told["results"], told["changed"]) == ("answered", 1, [0])
    assert arrays[0].array.sum() == 12


def test_what_is_wrong_with_a_text_is_told() -> None:
    client = Client(Surroundings())
    for text, kind in (("def attend(", "syntax"), ("1 / 0", "raised"), ("import no_such_module", "missing")):
        with pytest.raises(NotLoadedThere) as caught:
            client.load({"from": {"text": text}, "name": "attend"})
        assert caught.value.details["kind"] == kind
    client.close()


def test_a_class_is_examined_as_the_page_says() -> None:
    told = examined("Layer")
    assert told["bases"][-1] == "builtins.object"
    assert told["annotated"] == {"config": ["target_text:Config"]}
    assert told["methods"]["__call__"]["parameters"][1:] == [
        {"name": "query", "kind": "POSITIONAL_OR_KEYWORD"},
        {"name": "mask", "kind": "POSITIONAL_OR_KEYWORD", "default": None}]
    assert examined("Config")["signature"] == {"doc": "", "parameters": [
        {"name": "heads", "kind": "POSITIONAL_OR_KEYWORD"},
        {"name": "width", "kind": "POSITIONAL_OR_KEYWORD", "annotation": "int", "default": 8},
        {"name": "window", "kind": "POSITIONAL_OR_KEYWORD", "default": {"$tuple": [-1, {"$float": "inf"}]}},
        {"name": "kernel", "kind": "KEYWORD_ONLY", "default": {"$repr": "<ufunc 'matmul'>", "type": "ufunc"}}]}


def test_a_function_is_examined_as_the_page_says() -> None:
    told = examined("outer", sources=True)
    assert (told["name"], told["packages"]) == ("outer", ["numpy"])
    assert [each["calls"] for each in told["functions"]] == [{"projected": 1}, {}]
    assert told["functions"][1]["source"].startswith("def projected(weights, query):")
    assert list(told["makers"]) == ["init_params"]
    assert "functions" not in examined("outer")
