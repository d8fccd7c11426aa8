"""PyTorch on CUDA: windows of varlen_attn are wrong in a sequence with more queries than keys.

The kernel counts from the last query and the last key, so the first queries stand before the first key. A side without a
bound becomes one of as many keys as there are, and a right side of that many or more becomes one without a bound.
"""

import sys

import torch
from torch.nn.attention.varlen import varlen_attn

QUERIES, KEYS = 6, 4
torch.manual_seed(0)
query = torch.zeros(QUERIES, 1, 64, dtype=torch.float16, device="cuda")
key = torch.zeros(KEYS, 1, 64, dtype=torch.float16, device="cuda")
value = torch.zeros(KEYS, 1, 64, dtype=torch.float16, device="cuda")
value[:, 0, :KEYS] = torch.eye(KEYS, device="cuda")  # so that the output is the weights
borders = [torch.tensor([0, length], dtype=torch.int32, device="cuda") for length in (QUERIES, KEYS)]
seen = False
for left, right in ((3, -1), (-1, 4), (1, 1)):
    answer = varlen_attn(query, key, value, *borders, QUERIES, KEYS, window_size=(left, right))[:, 0, :KEYS]
    print(f"window_size=({left}, {right}): the query's place, the keys that it sees, and those of its window")
    for row in range(QUERIES):
        place = row + KEYS - QUERIES
        sees = torch.nonzero(answer[row]).flatten().tolist()
        window = [j for j in range(KEYS) if (left < 0 or j >= place - left) and (right < 0 or j <= place + right)]
        print(f"  {place}: {sees}, {window}" + ("" if sees == window else "  <- differs"))
        seen |= sees != window
sys.exit(int(seen))
