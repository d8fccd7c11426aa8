"""LaTeX to MathML, which browsers draw without a script."""

from __future__ import annotations

from functools import lru_cache

from latex2mathml.converter import convert
from markupsafe import Markup


@lru_cache(maxsize=1024)
def mathml(latex: str) -> Markup | None:
    """The formula as MathML, or None where it cannot be converted: then the LaTeX itself is shown."""
    if not latex.strip():
        return None
    try:
        # the converter escapes what it copies from the LaTeX: conformance/tests/test_page.py holds it to that
        return Markup(convert(latex, display="block"))
    except Exception:
        return None
