"""PyTorch on CUDA: with another number of values than of keys, cuDNN's kernel ends the process."""

import subprocess
import sys

CALL = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
query, key, value = (torch.randn(1, 1, length, 8, dtype=torch.float16, device="cuda") for length in (1, 3, {values}))
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    print(tuple(scaled_dot_product_attention(query, key, value).shape))
"""

codes = []
for values in (3, 2, 4):
    ended = subprocess.run([sys.executable, "-c", CALL.format(values=values)], capture_output=True, text=True, check=False)
    said = (ended.stdout or ended.stderr).strip().rpartition("\n")[2]
    print(f"3 keys, {values} values: exit code {ended.returncode}; {said[:200]}")
    codes.append(ended.returncode)
sys.exit(int(codes[0] == 0 and min(codes) < 0))
