"""Writes sampler_order.safetensors: which tokens transformers' temperature, top-k, top-p and min-p
processors keep, in the order in which generate() applies them, for tests/generate/test_sampler_exact.c.

Run it with torch and transformers installed: python sampler_order.py
"""

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig
from transformers.generation import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

ROWS, V = 64, 48
# (temperature, top_k, top_p, min_p); 0 is off
SETTINGS = [
    (0.6, 20, 0.95, 0),
    (1.0, 5, 0.5, 0),
    (0.7, 40, 0.9, 0.05),
    (1.5, 8, 0.8, 0.1),
    (2.0, 3, 0.7, 0),
    (1.0, 0, 0.9, 0.02),
    (1.0, 10, 0, 0.2),
]

generator = torch.Generator().manual_seed(7)
logits = torch.randn(ROWS, V, generator=generator) * 2.5
out = {"logits": logits, "settings": torch.tensor(SETTINGS, dtype=torch.float64)}
for i, (temperature, top_k, top_p, min_p) in enumerate(SETTINGS):
    steps = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p:
        steps.append(TopPLogitsWarper(top_p))
    if min_p:
        steps.append(MinPLogitsWarper(min_p))
    kept = steps(torch.zeros(ROWS, 1, dtype=torch.long), logits.clone())
    out[f"kept{i}"] = torch.isfinite(kept).to(torch.uint8)

# generate() itself builds its list in this order.
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=V,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )
)
config = GenerationConfig(do_sample=True, temperature=0.7, top_k=40, top_p=0.9, min_p=0.05)
built = model._get_logits_processor(config)
assert [type(p) for p in built] == [
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    MinPLogitsWarper,
], built

save_file(out, __file__.replace(".py", ".safetensors"))
