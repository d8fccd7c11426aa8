"""LaTeX to MathML, which browsers draw without a script."""

from __future__ import annotations

from functools import lru_cache
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markupsafe import Markup

_SPACE = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = frozenset({
    "math", "mrow", "mi", "mo", "mn", "mtext", "mspace", "mstyle", "mpadded", "mphantom", "mfrac", "msqrt",
    "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts",
    "none", "mtable", "mtr", "mtd", "menclose", "mfenced",
})
_ATTRIBUTES = frozenset({
    "display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "form", "separator",
    "symmetric", "largeop", "movablelimits", "accent", "accentunder", "linethickness", "width", "height",
    "depth", "lspace", "rspace", "minsize", "maxsize", "columnalign", "rowspacing", "columnspacing",
    "columnlines", "rowlines", "notation", "open", "close", "separators",
})
_CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}


@lru_cache(maxsize=1024)
def mathml(latex: str) -> Markup | None:
    """The formula as MathML, or None where it cannot be converted whole: then the LaTeX itself is shown."""
    if not latex.strip() or not _is_balanced(latex):
        return None
    try:
        drawn = convert(latex, display="block")
    except Exception:  # the converter raises IndexError, KeyError and its own; a formula never costs a page
        return None
    return Markup(drawn) if _is_plain(drawn) else None


def _is_balanced(latex: str) -> bool:
    """Whether all braces close: the converter would draw half a formula and say nothing."""
    bare = latex.replace(r"\{", "").replace(r"\}", "")
    return bare.count("{") == bare.count("}")


def _is_plain(drawn: str) -> bool:
    r"""Whether this is MathML and nothing else. The converter copies the inside of \text as it stands, tags and all."""
    try:
        root = ElementTree.fromstring(drawn)
    except ElementTree.ParseError:
        return False
    return all(_is_sound(element, element.tag.removeprefix(_SPACE)) for element in root.iter())


def _is_sound(element: ElementTree.Element, name: str) -> bool:
    is_known = name in _ELEMENTS and _ATTRIBUTES.issuperset(element.keys())
    is_whole = len(element) == _CHILDREN.get(name, len(element))
    # an unknown command is copied, backslash and all
    return is_known and is_whole and "\\" not in (element.text or "")
