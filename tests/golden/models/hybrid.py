"""Tiny random models of Qwen3-Next and Qwen3.5 with what transformers computes from them: small.py's
folders, of hybrids.

    python -P hybrid.py

They differ in what files differ in: projections of a gated delta net in one or in parts, experts one
by one or in stacks, prefixes, layers by interval or by name, and MLX's layout.
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from small import build, keys, reference, weights, write  # noqa: E402

DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
             linear_value_head_dim=12, linear_conv_kernel_dim=4)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
               shared_expert_intermediate_size=20)
ROPE = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25)
NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight", "q_norm.weight",
         "k_norm.weight", "model.norm.weight")


def hybrid(config_class, seed, **more):
    model = build(config_class, seed, rope_parameters=ROPE, num_hidden_layers=4, **DELTA, **more)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):  # some heads forget at once, some hardly
                p.copy_(torch.empty_like(p).uniform_(0.02, 2).log())
            elif name.endswith("dt_bias"):
                p.copy_(torch.randn_like(p) * 0.5 - 1)
            elif name.endswith(NORMS):
                p.sub_(1)
    return model


def one_by_one(state, F):
    out = {}
    for name, value in state.items():
        at, _, kind = name.rpartition(".")
        if kind == "gate_up_proj":
            for e in range(value.shape[0]):
                out[f"{at}.{e}.gate_proj.weight"] = value[e, :F].contiguous()
                out[f"{at}.{e}.up_proj.weight"] = value[e, F:].contiguous()
        elif kind == "down_proj" and at.endswith(".experts"):
            for e in range(value.shape[0]):
                out[f"{at}.{e}.down_proj.weight"] = value[e].contiguous()
        else:
            out[name] = value
    return out


def qwen3_next():
    from transformers import Qwen3NextConfig
    more = EXPERTS | dict(mlp_only_layers=[1], tie_word_embeddings=False)
    model = hybrid(Qwen3NextConfig, 40, **more)
    config = keys("qwen3_next", num_hidden_layers=4, rope_theta=10000.0, partial_rotary_factor=0.25,
                  full_attention_interval=4, **DELTA) | more
    state = one_by_one(weights(model), EXPERTS["moe_intermediate_size"])
    state["mtp.norm.weight"] = torch.zeros(2)
    yield "qwen3-next", config, state, reference(model)


def qwen3_5():
    """Inside the model that also sees, and as MLX converts it."""
    from transformers import Qwen3_5TextConfig
    kinds = ["linear_attention", "full_attention", "linear_attention", "full_attention"]
    model = hybrid(Qwen3_5TextConfig, 41, layer_types=kinds)
    rope = ROPE | dict(mrope_section=[1, 1, 0], mrope_interleaved=True)
    text = keys("qwen3_5_text", num_hidden_layers=4, layer_types=kinds, rope_parameters=rope, **DELTA)
    config = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": text,
              "vision_config": {"model_type": "qwen3_5"}}
    state, converted = {}, {}
    for name, value in weights(model).items():
        bare = name[len("model."):]
        state["model.language_model." + bare] = value
        if name.endswith(NORMS):
            value = value + 1
        elif name.endswith("conv1d.weight"):
            value = value.transpose(1, 2).contiguous()
        converted["language_model.model." + bare] = value
    state["model.visual.patch_embed.proj.weight"] = torch.zeros(2, 2)
    state["mtp.fc.weight"] = torch.zeros(2, 2)
    expected = reference(model)
    yield "qwen3-5-wrapped", config, state, expected
    yield "qwen3-5-mlx", config, converted, expected


def qwen3_5_moe():
    from transformers import Qwen3_5MoeTextConfig
    model = hybrid(Qwen3_5MoeTextConfig, 42, full_attention_interval=2, **EXPERTS)
    config = keys("qwen3_5_moe_text", num_hidden_layers=4, full_attention_interval=2,
                  rope_parameters=ROPE, **DELTA) | EXPERTS
    yield "qwen3-5-moe", config, weights(model), reference(model)


for make in (qwen3_next, qwen3_5, qwen3_5_moe):
    for folder in make():
        write(*folder)
