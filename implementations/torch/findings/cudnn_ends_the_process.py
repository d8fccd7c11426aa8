"""PyTorch on CUDA: a call that cuDNN has refused once ends the process when it is made again.

Refused are another number of values than of keys, and expanded inputs (strides of 0).
"""

import subprocess
import sys

CALL = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
query, key, value = (torch.randn(1, 2, length, 16, dtype=torch.float16, device="cuda") for length in (4, 4, {values}))
if {is_expanded}:
    query, key, value = (each[:, :1].expand(1, 2, 4, 16) for each in (query, key, value))
for _ in range(2):
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            output = scaled_dot_product_attention(query, key, value)
        torch.cuda.synchronize()
        print("answered", flush=True)
    except RuntimeError as raised:
        print("refused:", str(raised).splitlines()[0][:150], flush=True)
"""

codes = []
for values, is_expanded in ((4, False), (3, False), (5, False), (4, True)):
    command = [sys.executable, "-c", CALL.format(values=values, is_expanded=is_expanded)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "; ".join(ended.stdout.splitlines()) or ended.stderr.strip().rpartition("\n")[2]
    print(f"4 keys, {values} values{', expanded' * is_expanded}: {said}; exit code {ended.returncode}")
    codes.append(ended.returncode)
sys.exit(int(codes[0] == 0 and min(codes) < 0))
