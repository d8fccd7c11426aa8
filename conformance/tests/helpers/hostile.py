# ruff: noqa: E501  (lists of values, dense; some are not what they look like)
"""Values that nobody means where they stand: what YAML can hold, numbers at the ends, texts, addresses, names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RAW = "RAW:"
"""A text that begins with it is written into the file as it is, without quotes."""

_ANCHORED = "&a [x, *a]"
_LAUGHS = "{a: &a [ha, ha], b: &b [*a, *a], c: &c [*b, *b], d: &d [*c, *c], e: [*d, *d]}"
RAWS = (
    "!!python/object:os.system {}", "!!binary aGE=", "!!set {a, b}", "!!timestamp 2024-03-28", "! x", "!x y", "&a x", "*a",
    _ANCHORED, _LAUGHS, "{<<: {id: x}}", "{<<: [x]}", "2024-03-28", "0x1F", "0o17", "1_000", "1:30", "yes", "on", "~",
    "null", "|\n", ">-\n", "? x", "- x", "{", "[", "'", '"', "{a: 1, a: 2}", "{1: 2}", "{[a]: b}", "{null: x}", "{a, b}",
    "@x", "`x`", "%x", "#", '"\\ud800"', '"\\uDFFF x"', '"\\U00110000"', '"\\UFFFFFFFF"', '"\\0"', '"\\x1b[2J"',
    '"\\u202e"', '"\\N\\_\\L\\P"', '"\\q"', "--- x", "...", "[" * 40 + "]" * 40, "{a: " * 40 + "x" + "}" * 40,
    "[" * 3000, "9" * 40, "-" + "9" * 29, "1e999", "-1e999", "1e-999", "9" * 6000 + ".5", '"' + "9" * 6000 + '"')
NUMBERS = (
    0, -1, 1, 2, 3, 7, 10**6, 10**12, 10**29, -(10**29), 0.5, -0.5, 1e-300, 5e-324, 1e38, 1e300, 1.7e308, float("nan"),
    float("inf"), float("-inf"), True, False, None, -0.0, 2**31, 2**63)
OTHER_DIGITS = ("0", "1", "9", "64", "4096", "9999999", "9" * 19, "9" * 40, "-1", "nan", "1e9", "٣")
"""What stands in a text where a number stood."""

TEXTS = (
    "", " ", "\n", "x", "a.b", "a b", "float32", "any", "G3", "__main__", "..", ".", "/", "/etc/passwd", "../numpy",
    "a" * 300, "a" * 5000, "é" * 300, "é", "𝒽", "\u202eabc", "注意力", "ﬁ", "٣", "a\tb", "a\nb", "a:b", "a=b", "*", "?", "[",
    "[z-a]", "**/*", "a,b", "%s", "{0}", "{x}", "$HOME", "\\", "'", '"', "<script>", "javascript:alert(1)", "http://",
    "https://[::1", "https://[", "https://a b.c", "http://a:b/", "https://a:99999999/", "ftp://a.b", "https://a.b/<x>",
    "https://a.b/\n", "//a.b", "data:text/html,x", "https://\u202e.b", "HTTPS://A.B", "https://a.b/" + "x" * 3000,
    "class:def", "os:system", "9:9", "numpy>=", "numpy>=1; x", "numpy @ file:///x", ">=" + "9" * 6000, "===x", ">=1,<0",
    "1!2.0", "9" * 6000, "2.14", "violated", "\\frac{", "$$", "\\text{<b>}", "B1,H1", "NUL\0", "-x", "--help")
NESTED: Sequence[Any] = ({}, [], [[]], [{}], {"a": {}}, [None], ["x", "x"], [0], [-1, 10**29], [[0, -1]], [float("nan")],
                         [1e300], [0.0], [[10**29, 10**29]], ["any"])
POOLS: Sequence[Sequence[Any]] = ([RAW + raw for raw in RAWS], NUMBERS, TEXTS, NESTED)
