"""What a module needs, told from its text: the packages that it imports, the Python that it runs under."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import vermin

OLDEST = (3, 8)
"""The Python that adapters run under at least."""
JUDGES = {"attnspec", "hypothesis", "pytest"}
"""What adapters do without."""


def imported_packages(text: str) -> Iterator[str]:
    """The top-level packages that a module imports absolutely, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def newer(text: str) -> str:
    """What in a module is newer than OLDEST, in vermin's words; "" if nothing. Raises SyntaxError for newer syntax.

    Annotations count only where they are evaluated: in a module without `from __future__ import annotations`.
    """
    module = ast.parse(text, feature_version=OLDEST)
    if "annotations" in _futures(module):
        module = ast.fix_missing_locations(_WithoutAnnotations().visit(module))
    config = vermin.Config()
    config.set_eval_annotations(True)
    config.enable_feature("union-types")
    config.set_verbose(3)
    found = vermin.visit(ast.unparse(module), config)
    versions: list[tuple[int, int] | None] = found.minimum_versions()  # of Python 2 and of Python 3
    return "" if (versions[1] or OLDEST) <= OLDEST else str(found.output_text())


def _futures(module: ast.Module) -> set[str]:
    return {alias.name for node in module.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for alias in node.names}


class _WithoutAnnotations(ast.NodeTransformer):
    """Takes away annotations, and the import that keeps them from being evaluated: vermin looks away where it is."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module == "__future__" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        return ast.Assign([node.target], node.value or ast.Constant(None))
