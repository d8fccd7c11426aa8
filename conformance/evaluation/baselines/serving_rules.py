"""The rules by which lengths, packed sequences, pages and caches are tested today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnspec.core.forms import KEY_COUNTS
from attnspec.core.keywords import CACHED
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array
from attnspec.subjects.subject import Subject

from evaluation.baselines.dealing import describe_dealing
from evaluation.baselines.grids import HALVES, NODE_CASES, THREE
from evaluation.baselines.onnx_serving import ONNX_SERVING
from evaluation.baselines.references import Reference
from evaluation.baselines.rules import ONNX, Rule, beyond_eager, close_to_same, twice_eager
from evaluation.baselines.serving_grids import CACHES, VARLEN
from evaluation.baselines.serving_suites import FLASH_CACHES, FLASH_VARLEN

PLUS = 1e-5
"""What flash-attention's test of caches adds to three times the eager error, or with ALiBi five times."""

SERVED = frozenset({KEY_COUNTS, *CACHED})
"""Who takes none of these is asked nothing."""


def thrice_eager(seen: Array, reference: Reference) -> bool:
    """Whether the largest error in (B,H,T,Dv) is over 3 times that of an eager run, 5 with slopes, and `PLUS`."""
    return beyond_eager(seen, reference, 5 if reference.is_sloped else 3, PLUS)


@dataclass(frozen=True, slots=True)
class ServingRule(Rule):
    """A rule that is put to subjects that have lengths or past keys, in whatever form."""

    def suits(self, subject: Subject) -> bool:
        """Whether the subject has lengths or past keys."""
        return not SERVED.isdisjoint(subject.declaration.keywords)


_FLASH = "https://github.com/Dao-AILab/flash-attention/blob/main/tests/test_flash_attn.py"
_CUT = ("A large case has fewer sequences, or heads, than published. "
        "Diagonals start top-left, as attnspec recommends; a single query has none.")

_ALL = (
    ServingRule(
        "flash_attention_varlen", "flash-attention's 2x rule, varlen", _FLASH,
        "The largest error may be at most twice that of an eager run in the dtype of the inputs. Sequences of "
        "different lengths, one behind the other where the function takes them so, otherwise with numbers of queries "
        "and keys beside them: all but the last 20 at most. Gaussian, with the lengths, widths, heads and options of "
        f"its test: causal, windows, ALiBi, softcap, grouped heads. {describe_dealing(VARLEN)} Half of the work of the "
        "rule on "
        f"outputs. {_CUT} Left out: dropout, gradients, the causal test with pages, the test with packed inputs.",
        FLASH_VARLEN, twice_eager, (VARLEN[0].source,), HALVES),
    ServingRule(
        "flash_attention_kvcache", "flash-attention's 3x rule, kvcache", _FLASH,
        "The largest error may be at most 3 times that of an eager run in the dtype of the inputs, 5 times with ALiBi, "
        "plus 1e-5. Each sequence has its own number of keys in a cache, in pages where the function takes them "
        "so: of four slots, and in turn all keys in one page or a longer table. "
        "Where the test appends keys, as many as queries or fewer, they stand behind past keys, whose number all "
        "sequences share here; also as a number of keys. Gaussian, with the lengths, widths, heads and options of its "
        f"test: causal, windows, ALiBi, grouped heads. {describe_dealing(CACHES)} A quarter of the work of the rule on "
        "outputs. "
        f"{_CUT} Left out: caches of 20,000 and 131,072 keys, rotary embedding, padding to the left, indices of "
        "cache entries, and the comparison of the cache after the call.",
        FLASH_CACHES, thrice_eager, (CACHES[0].source,), (DType.FLOAT16,)),
    ServingRule(
        "onnx_serving", "ONNX's fixed cases with caches",
        "https://github.com/onnx/onnx/blob/main/onnx/backend/test/case/node/attention.py",
        "The node cases of its Attention operator with past keys, and with numbers of keys (nonpad_kv_seqlen), at "
        "their own sizes: entries in [0, 1), 12, 8 or 3 past keys; float and boolean masks, causal, windows, grouped "
        "heads, wider values, heads side by side, weights. Causal cases with numbers of keys are put without a "
        "diagonal, too, since ONNX's ends at that number. rtol 1e-3 (bfloat16 2^-6), atol 1e-7. Cases that are "
        "published in float32 are also used in the half dtypes, with a reference that is rounded once. Left out: the "
        "present keys that come back, logits, constant entries.",
        ONNX_SERVING, close_to_same(ONNX), (NODE_CASES,), THREE),
)

SERVING_RULES: Mapping[str, ServingRule] = {rule.name: rule for rule in _ALL}
"""The rules on serving by name, in the order in which tables show them."""
