"""Numbers as a reader wants them: few digits, true minus signs, no `1e-06`."""

from __future__ import annotations

import math
from datetime import datetime

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_AT_ALLOWANCE = 60.0  # percent of a gauge's width that margin 1 takes; what lies beyond is drawn on a log scale
_DECADES = 6.0


def figure(number: float | str, digits: int = 3) -> str:
    """A number of `digits` significant digits; `nan`, `inf` and `-inf` may come as words."""
    value = float(number)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return _plain(value, digits).replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_RAISED)}".replace("-", "−")


def _plain(value: float, digits: int) -> str:
    """Without an exponent, and never fewer digits than stand before the point."""
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def percent(part: float) -> str:
    """A share in percent. Only all is called 100 % and only nothing 0 %."""
    if part in (0.0, 1.0):
        return f"{100 * part:.0f} %"
    digits = 1 if 0.1 <= part <= 0.999 else 2
    return f"{min(max(100 * part, 0.01), 99.99):.{digits}f} %"


def grouped(number: int) -> str:
    """`1 024 000`: thousands apart."""
    return f"{number:,}".replace(",", "\u202f") if number >= 10_000 else str(number)


def moment(stamp: str) -> str:
    """An ISO time as people write it; what is none stays as it is."""
    try:
        return f"{datetime.fromisoformat(stamp):%Y-%m-%d %H:%M %Z}".rstrip()
    except ValueError:
        return stamp


def duration(seconds: float) -> str:
    """Seconds in the unit that fits."""
    if seconds >= 100:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms"


def gauge(margin: float) -> int:
    """How full, in percent, the gauge of a margin is: linear up to the allowance (60 %), logarithmic beyond it."""
    if math.isnan(margin) or math.isinf(margin):
        return 100
    if margin <= 1:
        return round(_AT_ALLOWANCE * max(margin, 0.0))
    return round(_AT_ALLOWANCE + (100 - _AT_ALLOWANCE) * min(1.0, math.log10(margin) / _DECADES))


def plainly(value: str) -> str:
    """Yes and no for what Python calls True and False."""
    return {"True": "yes", "False": "no"}.get(value, value)


def said(answer: str) -> str:
    """A word of a closed list as people write it; any other text as it is."""
    return answer if " " in answer else answer.replace("_", " ")


def counted(number: int, noun: str) -> str:
    """`1 clause`, `3 clauses`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def ascii_name(text: str) -> str:
    """A name that is safe as a fragment of an address: letters, digits, dot, dash and underscore."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in text)
