"""Transformers: flex_attention with any 4-D mask kills the process on CPU, after up to minutes of compiling."""

import subprocess
import sys

CALL = """
import torch
from types import SimpleNamespace
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
q = torch.randn(1, 2, 16, 16)
with torch.no_grad():
    ALL_ATTENTION_FUNCTIONS["flex_attention"](SimpleNamespace(training=False), q, q, q, torch.zeros(1, 1, 16, 16))
"""
ended = subprocess.run([sys.executable, "-c", CALL], check=False, capture_output=True, text=True)
print(f"flex_attention with a mask of zeros (1,1,16,16): exit code {ended.returncode}; {ended.stderr.strip()[-200:]}")
sys.exit(int(ended.returncode < 0))
