"""MiniCPM's three scalars, with a forward of NumPy in float64 that shares nothing with another.

    python minicpm.py

Writes minicpm/ (tied, with the scalars) and minicpm-head/ (a head of its own, longrope whose two
lists are equal): config.json, model.safetensors and reference.safetensors (README.md).
"""
import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
V, E, F, N, H, HK, D = 96, 32, 48, 3, 4, 2, 8
LENGTH, PROMPT, TOTAL = 40, 12, 36
EPS, THETA = 1e-5, 10000.0


def weights(rng, tied):
    w = {"model.embed_tokens.weight": (V, E), "model.norm.weight": (E,)}
    if not tied:
        w["lm_head.weight"] = (V, E)
    for i in range(N):
        at = f"model.layers.{i}."
        w |= {at + "self_attn.q_proj.weight": (H * D, E), at + "self_attn.k_proj.weight": (HK * D, E),
              at + "self_attn.v_proj.weight": (HK * D, E), at + "self_attn.o_proj.weight": (E, H * D),
              at + "mlp.gate_proj.weight": (F, E), at + "mlp.up_proj.weight": (F, E),
              at + "mlp.down_proj.weight": (E, F), at + "input_layernorm.weight": (E,),
              at + "post_attention_layernorm.weight": (E,)}
    return {k: (rng.normal(size=s) * 0.2 + (len(s) == 1)).astype(np.float32) for k, s in w.items()}


def norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * gain


def rotate(x, divisors, amplitude):
    """x (L, heads, D): pairs (j, j + D/2)."""
    half = D // 2
    angle = np.arange(len(x))[:, None] * THETA ** (-2 * np.arange(half) / D) / divisors
    cos, sin = amplitude * np.cos(angle)[:, None], amplitude * np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def forward(w, ids, config):
    w = {k: v.astype(np.float64) for k, v in w.items()}
    rope = config.get("rope_scaling")
    divisors = np.array(rope["short_factor"]) if rope else np.ones(D // 2)
    ratio = config["max_position_embeddings"] / rope["original_max_position_embeddings"] if rope else 1
    amplitude = np.sqrt(1 + np.log(ratio) / np.log(
        rope["original_max_position_embeddings"])) if ratio > 1 else 1.0
    depth = config["scale_depth"] / np.sqrt(N)
    x = w["model.embed_tokens.weight"][ids] * config["scale_emb"]
    L = len(ids)
    unseen = np.triu(np.full((L, L), -np.inf), 1)
    for i in range(N):
        at = f"model.layers.{i}."
        h = norm(x, w[at + "input_layernorm.weight"])
        q = rotate((h @ w[at + "self_attn.q_proj.weight"].T).reshape(L, H, D), divisors, amplitude)
        k = rotate((h @ w[at + "self_attn.k_proj.weight"].T).reshape(L, HK, D), divisors, amplitude)
        v = (h @ w[at + "self_attn.v_proj.weight"].T).reshape(L, HK, D)
        out = np.empty((L, H, D))
        for head in range(H):
            s = q[:, head] @ k[:, head // (H // HK)].T / np.sqrt(D) + unseen
            p = np.exp(s - s.max(-1, keepdims=True))
            out[:, head] = p / p.sum(-1, keepdims=True) @ v[:, head // (H // HK)]
        x = x + depth * (out.reshape(L, H * D) @ w[at + "self_attn.o_proj.weight"].T)
        h = norm(x, w[at + "post_attention_layernorm.weight"])
        gate, up = h @ w[at + "mlp.gate_proj.weight"].T, h @ w[at + "mlp.up_proj.weight"].T
        x = x + depth * ((gate / (1 + np.exp(-gate)) * up) @ w[at + "mlp.down_proj.weight"].T)
    x = norm(x, w["model.norm.weight"]) / (E / config["dim_model_base"])
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def write(name, seed, tied, **more):
    rng = np.random.default_rng(seed)
    config = dict(model_type="minicpm", vocab_size=V, hidden_size=E, intermediate_size=F,
                  num_hidden_layers=N, num_attention_heads=H, num_key_value_heads=HK,
                  rms_norm_eps=EPS, max_position_embeddings=256, tie_word_embeddings=tied,
                  scale_emb=12, scale_depth=1.4, dim_model_base=8, **more)
    w = weights(rng, tied)
    ids = rng.integers(3, V, (2, LENGTH))
    greedy = list(ids[0, :PROMPT])
    while len(greedy) < TOTAL:
        greedy.append(forward(w, np.array(greedy), config)[-1].argmax())
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(w, folder / "model.safetensors")
    save_file({"input_ids": ids.astype(np.int32), "greedy": np.array([greedy], np.int32),
               "logits": np.stack([forward(w, row, config) for row in ids]).astype(np.float32)},
              folder / "reference.safetensors")


write("minicpm", 1, True)
factors = [1 + 0.3 * j for j in range(D // 2)]
write("minicpm-head", 2, False,
      rope_scaling=dict(rope_type="longrope", short_factor=factors, long_factor=factors,
                        original_max_position_embeddings=64))
