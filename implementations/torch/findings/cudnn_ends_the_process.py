"""PyTorch on CUDA: a call that cuDNN has refused once ends the process when it is made again.

Refused are another number of values than of keys, and expanded inputs (strides of 0) whose values have another width.
"""

import subprocess
import sys

CALL = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
shapes = (1, 2, 4, 16), (1, 2, 4, 16), (1, 2, {values}, {width})
query, key, value = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes)
if {is_expanded}:
    query, key, value = (each[:, :1].expand(each.shape) for each in (query, key, value))
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
for values, width, is_expanded in ((4, 40, False), (3, 40, False), (5, 40, False), (4, 40, True)):
    command = [sys.executable, "-c", CALL.format(values=values, width=width, is_expanded=is_expanded)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "; ".join(ended.stdout.splitlines()) or ended.stderr.strip().rpartition("\n")[2]
    print(f"4 keys, {values} values{', expanded' * is_expanded}: {said}; exit code {ended.returncode}")
    codes.append(ended.returncode)
sys.exit(int(codes[0] == 0 and min(codes) < 0))
