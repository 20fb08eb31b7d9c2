"""Checkpoints as mlx quantises them, with the logits of their decoded weights from transformers.

    python quantized.py

Writes mlx-qwen3/ (affine of several widths, mxfp4, a quantised embedding) and mlx-qwen3-moe/
(experts, a router of 8 bits). Codes and scales come from mlx.core.quantize in bfloat16; the
reference decodes them in float32.
"""
import json
import pathlib

import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3MoeConfig

HERE = pathlib.Path(__file__).parent
SIZES = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-6,
             max_position_embeddings=256, rope_theta=10000.0, bos_token_id=1, eos_token_id=2)
LENGTH, PROMPT, TOTAL = 40, 12, 36


def to_torch(a):
    if a.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(a.view(mx.uint16)).view(np.int16)).view(torch.bfloat16)
    a = np.array(a)
    return torch.from_numpy(a.view(np.int32)).view(torch.uint32) if a.dtype == np.uint32 else \
        torch.from_numpy(a)


def quantize(state, path, value, how):
    """Puts codes and scales into `state`; the decoded matrix in float32."""
    w = mx.array(value.numpy()).astype(mx.bfloat16)
    codes, scales, *biases = mx.quantize(w, **how)
    wide = scales.astype(mx.float32) if biases else scales
    for name, part in zip(("weight", "scales", "biases"), (codes, scales, *biases)):
        state[f"{path}.{name}"] = to_torch(part)
    decoded = mx.dequantize(codes, wide, *[b.astype(mx.float32) for b in biases],
                            **how, dtype=mx.float32)
    return torch.from_numpy(np.array(decoded))


@torch.no_grad()
def write(name, config_class, model_type, seed, usual, special, **more):
    torch.manual_seed(seed)
    tied = special.get("lm_head") is None
    config = config_class(**{**SIZES, **more, "tie_word_embeddings": tied})
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    state, settings = {}, dict(usual)
    for full, p in model.named_parameters():
        if full == "lm_head.weight" and tied:
            continue
        p.copy_(torch.randn_like(p) * 0.15 + (1.0 if p.ndim == 1 else 0.0))
        if p.ndim == 1:
            p.copy_(p.bfloat16().float())
            state[full] = p.bfloat16().clone()
            continue
        path = full.removesuffix(".weight")
        how = special.get(path, usual)
        if how != usual:
            settings[path] = how
        if path.endswith("experts.gate_up_proj"):
            at, half = path[:-len("experts.gate_up_proj")] + "switch_mlp.", p.shape[1] // 2
            p.copy_(torch.cat([quantize(state, at + "gate_proj", p[:, :half].contiguous(), how),
                               quantize(state, at + "up_proj", p[:, half:].contiguous(), how)], 1))
        elif path.endswith("experts.down_proj"):
            at = path[:-len("experts.down_proj")] + "switch_mlp.down_proj"
            p.copy_(quantize(state, at, p, how))
        elif how is False:
            p.copy_(p.bfloat16().float())
            state[full] = p.bfloat16().clone()
        else:
            p.copy_(quantize(state, path, p, how))
    ids = torch.randint(3, SIZES["vocab_size"], (2, LENGTH))
    greedy = ids[:1, :PROMPT]
    while greedy.shape[1] < TOTAL:
        logits = model(greedy, use_cache=False).logits[:, -1]
        greedy = torch.cat([greedy, logits.argmax(-1, keepdim=True)], 1)
    expected = {"input_ids": ids.int(), "greedy": greedy.int(),
                "logits": model(ids, use_cache=False).logits.float()}
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    keys = {"model_type": model_type, **SIZES, **more, "tie_word_embeddings": tied,
            "quantization": settings, "quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(keys, indent=1) + "\n")
    save_file(state, folder / "model.safetensors")
    save_file(expected, folder / "reference.safetensors")


def affine(bits, group):
    return dict(group_size=group, bits=bits, mode="affine")


write("mlx-qwen3", Qwen3Config, "qwen3", 1, affine(4, 32), {
    "model.layers.0.self_attn.q_proj": affine(8, 64),
    "model.layers.0.self_attn.v_proj": affine(3, 32),
    "model.layers.0.mlp.gate_proj": dict(group_size=32, bits=4, mode="mxfp4"),
    "model.layers.1.mlp.gate_proj": dict(group_size=16, bits=4, mode="nvfp4"),
    "model.layers.1.mlp.up_proj": dict(group_size=32, bits=8, mode="mxfp8"),
    "model.layers.1.self_attn.o_proj": False,
    "model.layers.1.self_attn.k_proj": affine(6, 32),
})
write("mlx-qwen3-moe", Qwen3MoeConfig, "qwen3_moe", 2, affine(4, 32), {
    "model.layers.0.mlp.gate": affine(8, 64), "model.layers.1.mlp.gate": affine(8, 64),
    "lm_head": affine(6, 64),
}, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True)
