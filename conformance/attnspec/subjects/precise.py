"""Whether declared precision classes are spelt right. Apart, because it needs NumPy and reading a manifest does not."""

from __future__ import annotations

from attnspec.ground.declaration import Declaration
from attnspec.ground.errors import AttnspecError, ManifestError, Place
from attnspec.numerics.precision import precision_of


def check_precision(declaration: Declaration, where: Place | None, error: type[AttnspecError] = ManifestError) -> None:
    """Raise `error` at the first precision class, of the subject or a variant, that makes no sense."""
    classes = [declaration.precision, *(variant.precision for variant in declaration.variants.values())]
    for precision in classes:
        for dtype, words in precision.items():
            try:
                precision_of(words, dtype)
            except ManifestError as cause:
                raise error(str(cause), where=where) from None
