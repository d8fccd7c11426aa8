"""What a mutant changes: each operator says which nodes of a syntax tree it changes, and to what.

An operator is a slip that people make: a comparison that takes the boundary in, an index off by one, an axis too far, a
term or a statement left out, an operand on the wrong side, another variable of the same kind. It hands back syntax
trees; `kernel_mutants` puts them in the place of the node.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

Operator = Callable[[ast.AST], Iterator[ast.AST]]

COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,)}
ARITHMETIC: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult}
OPPOSITES: Mapping[str, str] = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "sum": "mean", "exp": "exp2",
    "log": "log2", "zeros": "ones", "ones": "zeros", "zeros_like": "ones_like", "ones_like": "zeros_like",
    "repeat": "tile", "isneginf": "isposinf", "any": "all", "all": "any", "promote_types": "result_type"}
"""A function's name, and that of the function which is taken for it."""

DROPPED = ("astype", "copy", "swapaxes", "transpose", "reshape")
"""Methods whose call is forgotten."""

KINDS: Sequence[frozenset[str]] = tuple(frozenset(names.split()) for names in (
    "query key value grad_output", "q k v grad", "T S P", "B H Hkv", "D Dv", "left right", "first last rows",
    "start stop first", "row column", "place column slot", "keys page begin used", "b h head number",
    "top largest shift", "total sums", "weights scores decay", "weights logits", "of_query of_key of_value",
    "past_key past_value", "query_segments key_segments", "cu_query cu_key", "query_lengths key_lengths",
    "heads kv_heads", "of_weights of_logits of_dots", "slope capped", "dtype wide", "scale softcap"))
"""Names of which one is taken for another where a function has both."""


def compare_otherwise(node: ast.AST) -> Iterator[ast.AST]:
    """With the boundary in or out, or the other way round."""
    if isinstance(node, ast.Compare):
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)


def calculate_otherwise(node: ast.AST) -> Iterator[ast.AST]:
    """Plus for minus, times for divided by."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)


def drop_an_operand(node: ast.AST) -> Iterator[ast.AST]:
    """One side alone."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        yield from (node.left, node.right)
    if isinstance(node, ast.BoolOp):
        yield from node.values


def swap_operands(node: ast.AST) -> Iterator[ast.AST]:
    """The right side first, where that makes a difference."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.MatMult):
        yield ast.BinOp(node.right, node.op, node.left)


def swap_arguments(node: ast.AST) -> Iterator[ast.AST]:
    """Two arguments that stand beside each other, and two parts of what is returned or unpacked."""
    if isinstance(node, ast.Call):
        for at in range(len(node.args) - 1):
            yield ast.Call(node.func, _swap_neighbours(node.args, at), node.keywords)
    if isinstance(node, ast.Tuple):
        for at in range(len(node.elts) - 1):
            yield ast.Tuple(_swap_neighbours(node.elts, at), node.ctx)


def _swap_neighbours(nodes: Sequence[ast.expr], at: int) -> list[ast.expr]:
    return [*nodes[:at], nodes[at + 1], nodes[at], *nodes[at + 2:]]


def count_otherwise(node: ast.AST) -> Iterator[ast.AST]:
    """A whole number one more, one less, with the other sign; a flag off."""
    value = _number(node)
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield from (_constant(other) for other in dict.fromkeys((value + 1, value - 1, -value)) if other != value)
    elif isinstance(value, float):
        yield from (_constant(-value), _constant(2 * value))


def _number(node: ast.AST) -> object:
    """The number that a constant says, its sign with it."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, ast.Constant) else None


def _constant(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def negate_otherwise(node: ast.AST) -> Iterator[ast.AST]:
    """A sign or a `not` left out, and a condition that is always or never met."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    if isinstance(node, ast.If) and not node.orelse:
        yield ast.If(ast.Constant(value=True), node.body, [])


def shift_a_bound(node: ast.AST) -> Iterator[ast.AST]:
    """An end of a slice one further, one less far, or left out."""
    if not isinstance(node, ast.Slice) or node.step:
        return
    ends = (node.lower, node.upper)
    for at, bound in enumerate(ends):
        if bound is None:
            continue
        shifted = [] if isinstance(bound, ast.Constant) else [  # of a constant `count_otherwise` tells
            ast.BinOp(bound, op, ast.Constant(1)) for op in (ast.Add(), ast.Sub())]
        for now in (None, *shifted):
            yield ast.Slice(*[now if each == at else end for each, end in enumerate(ends)])


def shift_a_range(node: ast.AST) -> Iterator[ast.AST]:
    """A loop or a row of numbers that ends one earlier or later."""
    if isinstance(node, ast.Call) and _callee(node) in {"range", "arange"}:
        for at, bound in enumerate(node.args):
            if not isinstance(bound, ast.Constant):
                for op in (ast.Add(), ast.Sub()):
                    args = [*node.args[:at], ast.BinOp(bound, op, ast.Constant(1)), *node.args[at + 1:]]
                    yield ast.Call(node.func, args, node.keywords)


def take_the_first(node: ast.AST) -> Iterator[ast.AST]:
    """The first entry, whichever was asked for."""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for at, part in enumerate(parts):
        if isinstance(part, ast.Name):
            others: list[ast.expr] = [*parts[:at], ast.Constant(0), *parts[at + 1:]]
            place = ast.Tuple(others, ast.Load()) if isinstance(node.slice, ast.Tuple) else others[0]
            yield ast.Subscript(node.value, place, node.ctx)


def call_otherwise(node: ast.AST) -> Iterator[ast.AST]:
    """The opposite function."""
    if isinstance(node, ast.Call) and _callee(node) in OPPOSITES:
        func, other = copy.deepcopy(node.func), OPPOSITES[_callee(node)]
        if isinstance(func, ast.Attribute):
            func.attr = other
        elif isinstance(func, ast.Name):
            func.id = other
        yield ast.Call(func, node.args, node.keywords)


def _callee(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def drop_a_call(node: ast.AST) -> Iterator[ast.AST]:
    """What a method is called on, as it is; one argument in place of the call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DROPPED:
        yield node.func.value
    if isinstance(node, ast.Call) and _callee(node) in {"maximum", "min", "exp", "tanh", "repeat", "spread", "gather"}:
        yield from node.args[:2]


def drop_a_keyword(node: ast.AST) -> Iterator[ast.AST]:
    """A named argument left out."""
    if isinstance(node, ast.Call):
        for at in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, [*node.keywords[:at], *node.keywords[at + 1:]])


def drop_a_statement(node: ast.AST) -> Iterator[ast.AST]:
    """A statement left out."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.If | ast.Break | ast.Continue):
        yield ast.Pass()


def drop_an_axis_of_an_index(node: ast.AST) -> Iterator[ast.AST]:
    """`[..., None]` for `[:, None]`, and a step of all for a single one: an array that lies along another axis."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        for at in range(len(node.slice.elts) - 1):
            if ast.dump(node.slice.elts[at]) != ast.dump(node.slice.elts[at + 1]):
                yield ast.Subscript(node.value, ast.Tuple(_swap_neighbours(node.slice.elts, at), ast.Load()), node.ctx)


def take_another_name(node: ast.AST, names: frozenset[str]) -> Iterator[ast.AST]:
    """Another variable of the same kind, of those that the function has."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        others = {other for kind in KINDS if node.id in kind for other in kind} & names - {node.id}
        yield from (ast.Name(other, ast.Load()) for other in sorted(others))


OPERATORS: Mapping[str, Operator] = {
    "compare": compare_otherwise, "calculate": calculate_otherwise, "operand": drop_an_operand,
    "sides": swap_operands, "arguments": swap_arguments, "count": count_otherwise, "sign": negate_otherwise,
    "bound": shift_a_bound, "range": shift_a_range, "first": take_the_first, "function": call_otherwise,
    "call": drop_a_call, "keyword": drop_a_keyword, "statement": drop_a_statement, "axis": drop_an_axis_of_an_index}
"""By the name that stands in a mutant's id. `name` is `take_another_name`, which knows the function's variables."""
