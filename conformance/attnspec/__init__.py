"""attnspec: the conformance suite for attention.

`gate` turns an attention function into a pytest test, one item a clause and dtype:

    from attnspec import gate
    test_attention = gate("mypackage.mine:attend")

Legend of axes, one for the whole project:
`B` batch, `H` query heads, `Hkv` key/value heads, `T` query length, `S` key/value length,
`D` head width (d_k), `Dv` value head width, `M` model width (d_model).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnspec.core.paths import VERSION

if TYPE_CHECKING:
    from attnspec.runner.gate import gate

__all__ = ["__version__", "gate"]

__version__ = VERSION


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever the package exports)
    """`gate` is imported when it is asked for, so that `import attnspec` stays light."""
    if name == "gate":
        from attnspec.runner.gate import gate  # noqa: PLC0415  (weight: the runner needs pytest)

        return gate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
