"""Writes float8.safetensors: all codes of F8_E4M3 and F8_E5M2, and their values in float32, by torch,
for tests/io/test_safetensors.c.

Run it in this folder: python -P float8.py
"""

import torch
from safetensors.torch import save_file

codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
out = {}
for name, dtype in {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}.items():
    out[name] = codes.view(dtype).clone().reshape(16, 16)
    out[f"{name}.values"] = out[name].to(torch.float32)
save_file(out, "float8.safetensors")
