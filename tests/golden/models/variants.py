"""Draws small configurations of every family and compares `weft` with transformers.

    python tests/golden/models/variants.py build/cli/weft [--check logits|config|keys|greedy|lora|gguf]
        [--seed N] [--number N] [FAMILY...]

Sizes, norms, activations, biases, rotations, windows, experts and layers' kinds are drawn; parameters
are random. Prints a line for each variant: ok, FAIL, or refused with the message of `weft`. Where
both differ by more than the limit, logits in float64 decide: those of `weft` may be twice as far off as
those of transformers, or as those in float64 after rounding the weights to float32. With
--keep FOLDER failing models stay there. Run by hand: five variants of each family take about
three minutes. Needs transformers 5.24.
"""
import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig

from variant_checks import CHECKS, LIMIT, class_of, peers

ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu"]

# ---- parts of configurations -----------------------------------------------------------------------


def rotation(r, D, kinds=("default", "linear", "dynamic", "yarn", "llama3", "longrope")):
    theta = r.choice([500.0, 10000.0, 1e6])
    kind = r.choice(("default",) + tuple(kinds))
    rope = {"rope_type": kind, "rope_theta": theta}
    if kind in ("linear", "dynamic", "yarn", "longrope"):
        rope["factor"] = r.choice([2.0, 4.0, 1.5])
    if kind == "yarn":
        rope |= {"original_max_position_embeddings": r.choice([16, 64])}
        rope |= r.choice([{}, {"beta_fast": 16.0, "beta_slow": 2.0}, {"attention_factor": 1.3},
                          {"mscale": 1.0, "mscale_all_dim": 0.7}, {"truncate": False}])
    if kind == "llama3":
        rope |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": r.choice([16, 64])}
    if kind == "longrope":
        rope |= {name: [1 + r.random() * k for _ in range(D // 2)]
                 for name, k in (("short_factor", 1), ("long_factor", 8))}
        rope |= {"original_max_position_embeddings": r.choice([16, 64])}
    return rope


def sizes(r, rope=True, acts=ACTIVATIONS, tie=(False, True), kinds=None, free=True):
    Hk, group, D = r.choice([1, 2, 3]), r.choice([1, 2, 3]), r.choice([8, 16, 32])
    H = Hk * group
    out = dict(vocab_size=r.choice([65, 96, 131]), num_hidden_layers=r.choice([1, 2, 3, 4]),
               num_attention_heads=H, num_key_value_heads=Hk,
               hidden_size=H * r.choice([8, 16, 24]) if free else H * D,
               intermediate_size=r.choice([32, 40, 96]), max_position_embeddings=128,
               rms_norm_eps=r.choice([1e-6, 1e-5, 1e-2]), hidden_act=r.choice(acts),
               tie_word_embeddings=r.choice(tie), pad_token_id=0, bos_token_id=1, eos_token_id=2)
    if free:
        out["head_dim"] = D
    if rope:
        out["rope_parameters"] = rotation(r, D, **({} if kinds is None else {"kinds": kinds}))
    return out


def flags(r, *names):
    return {name: r.random() < 0.5 for name in names}


def layer_types(r, n, kinds=("full_attention", "sliding_attention")):
    """With at least one layer of attention: transformers' caches need it."""
    types = [r.choice(kinds) for _ in range(n)]
    types[r.randrange(n)] = next(kind for kind in kinds if "attention" in kind and "linear" not in kind)
    return types


def windowed(r, c, kinds=("full_attention", "sliding_attention")):
    return {"sliding_window": r.choice([3, 8, 100]),
            "layer_types": layer_types(r, c["num_hidden_layers"], kinds)}


def experts(r, count="num_experts", width=True):
    n = r.choice([2, 4, 5])
    return {count: n, "num_experts_per_tok": r.choice([1, 2])} | (
        {"moe_intermediate_size": r.choice([16, 24])} if width else {})


# ---- families --------------------------------------------------------------------------------------


def llama(r):
    return sizes(r) | flags(r, "attention_bias", "mlp_bias")


def mistral(r):
    return sizes(r) | {"sliding_window": r.choice([None, 4, 100])}


def ministral(r):
    c = sizes(r)
    return c | windowed(r, c)


def ministral3(r):
    c = sizes(r, kinds=("yarn",))
    c["rope_parameters"] |= {"llama_4_scaling_beta": r.choice([0.0, 0.1]),
                             "original_max_position_embeddings": 16}
    return c


def mixtral(r):
    return sizes(r) | experts(r, "num_local_experts", False) | {
        "sliding_window": r.choice([None, 4])}


def qwen2(r):
    c = sizes(r, free=False)
    return c | {"use_sliding_window": r.random() < 0.6, "sliding_window": r.choice([3, 8]),
                "max_window_layers": r.choice([0, 1, 2])}


def qwen3(r):
    c = sizes(r)
    return c | flags(r, "attention_bias") | {
        "use_sliding_window": r.random() < 0.6, "sliding_window": r.choice([3, 8]),
        "max_window_layers": r.choice([0, 1, 2])}


def qwen3_moe(r):
    c = sizes(r) | experts(r) | flags(r, "attention_bias", "norm_topk_prob")
    return c | {"decoder_sparse_step": r.choice([1, 2]),
                "mlp_only_layers": r.choice([[], [0]])}


def linear_layers(r):
    Hk = r.choice([1, 2])
    return {"linear_num_key_heads": Hk, "linear_num_value_heads": Hk * r.choice([1, 2]),
            "linear_key_head_dim": r.choice([8, 16]), "linear_value_head_dim": r.choice([8, 16]),
            "linear_conv_kernel_dim": r.choice([2, 4])}


def qwen3_next(r):
    c = sizes(r, kinds=()) | experts(r) | linear_layers(r) | flags(r, "norm_topk_prob")
    c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.25, 0.5, 1.0])
    return c | {"shared_expert_intermediate_size": r.choice([16, 24]),
                "layer_types": layer_types(r, c["num_hidden_layers"],
                                           ("full_attention", "linear_attention"))}


def qwen3_5_text(r):
    c = sizes(r, kinds=()) | linear_layers(r)
    c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.25, 0.5])
    return c | {"layer_types": layer_types(r, c["num_hidden_layers"],
                                           ("full_attention", "linear_attention"))}


def qwen3_5_moe_text(r):
    return qwen3_5_text(r) | experts(r) | {"shared_expert_intermediate_size": r.choice([16, 24])}


def gemma(r, **more):
    c = sizes(r, **more)
    c["hidden_activation"] = c.pop("hidden_act")
    return c | {"query_pre_attn_scalar": r.choice([16, 20, 64])}


def gemma2(r):
    c = gemma(r)
    return c | windowed(r, c) | {"attn_logit_softcapping": r.choice([None, 5.0]),
                                 "final_logit_softcapping": r.choice([None, 10.0])}


def gemma3_text(r):
    c = gemma(r, rope=False)
    rope = {"full_attention": rotation(r, c["head_dim"], ("linear",)),
            "sliding_attention": rotation(r, c["head_dim"], ())}
    return c | windowed(r, c) | {"rope_parameters": rope,
                                 "final_logit_softcapping": r.choice([None, 10.0])}


def cohere2(r):
    c = sizes(r, kinds=(), free=False)
    del c["rms_norm_eps"]
    return c | windowed(r, c) | flags(r, "attention_bias") | {
        "logit_scale": r.choice([0.25, 1.0]), "layer_norm_eps": r.choice([1e-5, 1e-2])}


def ernie4_5(r):
    return sizes(r) | flags(r, "use_bias")


def exaone4(r):
    c = sizes(r)
    return c | windowed(r, c)


def glm4(r):
    c = sizes(r, kinds=())
    c["rope_parameters"]["partial_rotary_factor"] = r.choice([0.5, 1.0])
    return c | flags(r, "attention_bias")


def latent(r, kinds=()):
    c = sizes(r, kinds=kinds)
    rotated = r.choice([8, 16])
    c.pop("head_dim")
    c["num_key_value_heads"] = c["num_attention_heads"]
    c["rope_parameters"] = rotation(r, rotated, kinds)
    return c | {"q_lora_rank": r.choice([16, 24]), "kv_lora_rank": r.choice([16, 32]),
                "qk_nope_head_dim": r.choice([8, 16]), "qk_rope_head_dim": rotated,
                "v_head_dim": r.choice([8, 16])} | flags(r, "attention_bias")


def glm4_moe_lite(r):
    n = r.choice([2, 4])
    return latent(r) | {"n_routed_experts": n, "n_group": 1, "topk_group": 1,
                        "num_experts_per_tok": r.choice([1, 2]), "moe_intermediate_size": 24,
                        "n_shared_experts": r.choice([1, 2]),
                        "routed_scaling_factor": r.choice([1.0, 1.8])} | flags(r, "norm_topk_prob")


def minicpm3(r):
    return latent(r, ("longrope", "linear")) | flags(r, "mlp_bias") | {
        "scale_emb": r.choice([1, 12]), "scale_depth": r.choice([1.0, 1.4]),
        "dim_model_base": r.choice([16, 32])}


def gpt_oss(r):
    c = sizes(r, acts=["silu"], kinds=("yarn",)) | experts(r, "num_local_experts", False)
    return c | windowed(r, c) | flags(r, "attention_bias")


def granite(r):
    return sizes(r) | flags(r, "attention_bias", "mlp_bias") | {
        "embedding_multiplier": r.choice([1.0, 3.0]), "logits_scaling": r.choice([1.0, 2.0]),
        "residual_multiplier": r.choice([1.0, 0.5]), "attention_multiplier": r.choice([1.0, 0.1])}


def granitemoehybrid(r):
    c = sizes(r, kinds=(), free=False)
    c |= {"mamba_n_heads": 4, "mamba_d_head": c["hidden_size"] * 2 // 4, "mamba_expand": 2,
          "mamba_d_state": r.choice([8, 16]), "mamba_n_groups": r.choice([1, 2]),
          "mamba_d_conv": r.choice([2, 4]), "mamba_chunk_size": 16}
    c |= {"num_local_experts": r.choice([0, 4]), "num_experts_per_tok": 2,
          "shared_intermediate_size": r.choice([24, 40]),
          "position_embedding_type": r.choice([None, "rope"]),
          "layer_types": layer_types(r, c["num_hidden_layers"], ("mamba", "attention"))}
    return c | flags(r, "attention_bias", "mamba_conv_bias", "mamba_proj_bias") | {
        "embedding_multiplier": r.choice([1.0, 3.0]), "logits_scaling": r.choice([1.0, 2.0]),
        "residual_multiplier": r.choice([1.0, 0.5]), "attention_multiplier": r.choice([1.0, 0.1])}


def falcon_h1(r):
    c = sizes(r, kinds=())
    c |= {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_ssm": 32, "mamba_d_state": 16,
          "mamba_n_groups": r.choice([1, 2]), "mamba_d_conv": r.choice([2, 4]),
          "mamba_chunk_size": 16, "key_multiplier": r.choice([1.0, 0.5]),
          "lm_head_multiplier": r.choice([1.0, 0.5]), "embedding_multiplier": r.choice([1.0, 2.0]),
          "ssm_multipliers": [r.choice([1.0, 0.5]) for _ in range(5)],
          "mlp_multipliers": [r.choice([1.0, 0.5]) for _ in range(2)],
          "ssm_in_multiplier": r.choice([1.0, 1.5]), "ssm_out_multiplier": r.choice([1.0, 0.5]),
          "attention_out_multiplier": r.choice([1.0, 0.5])}
    return c | flags(r, "attention_bias", "mlp_bias", "mamba_conv_bias", "mamba_proj_bias",
                     "mamba_rms_norm", "mamba_norm_before_gate")


def hunyuan_v1_dense(r):
    return sizes(r, kinds=("linear",)) | flags(r, "attention_bias")


def lfm2(r):
    c = sizes(r, kinds=(), free=False)
    c["norm_eps"] = c.pop("rms_norm_eps")
    return c | flags(r, "conv_bias", "block_auto_adjust_ff_dim") | {
        "conv_L_cache": r.choice([2, 3, 4]), "block_multiple_of": 8,
        "layer_types": layer_types(r, c["num_hidden_layers"], ("conv", "full_attention"))}


def lfm2_moe(r):
    return lfm2(r) | experts(r) | flags(r, "norm_topk_prob", "use_expert_bias") | {
        "num_dense_layers": r.choice([0, 1]), "routed_scaling_factor": r.choice([1.0, 2.0])}


def lfm3(r):
    c = sizes(r, rope=False)
    c["norm_eps"] = c.pop("rms_norm_eps")
    kinds = ("conv", "full_attention", "sliding_attention")
    full = {"rope_type": "proportional", "rope_theta": 5e4, "partial_rotary_factor": r.choice([0.25, 0.5])}
    return c | flags(r, "conv_bias", "use_sandwich_norm", "use_attention_gate", "attention_bias") | {
        "conv_L_cache": r.choice([2, 4, 7]), "sliding_window": r.choice([3, 8]),
        "layer_types": layer_types(r, c["num_hidden_layers"], kinds),
        "rope_parameters": {"full_attention": r.choice([full, rotation(r, 0, ())]),
                            "sliding_attention": rotation(r, 0, ())}}


def gemma4_text(r):
    c = gemma(r, rope=False)
    del c["query_pre_attn_scalar"]
    n = c["num_hidden_layers"]
    c["layer_types"] = layer_types(r, n)
    c["layer_types"][-1] = "full_attention"
    full = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": r.choice([0.25, 0.5])}
    shared = r.choice([0, 1]) if n > 2 and c["layer_types"][:-1].count("full_attention") else 0
    moe = r.random() < 0.4
    return c | {"sliding_window": r.choice([3, 8]), "global_head_dim": r.choice([16, 32]),
                "num_kv_shared_layers": shared, "final_logit_softcapping": r.choice([None, 10.0]),
                "hidden_size_per_layer_input": r.choice([0, 8]),
                "vocab_size_per_layer_input": c["vocab_size"], "enable_moe_block": moe,
                "num_experts": 4 if moe else None, "top_k_experts": 2 if moe else None,
                "moe_intermediate_size": 24 if moe else None,
                "rope_parameters": {"full_attention": full,
                                    "sliding_attention": rotation(r, 0, ())}} | flags(
                    r, "attention_k_eq_v", "attention_bias", "use_double_wide_mlp")


def nemotron_h(r):
    c = sizes(r, rope=False, tie=[False])  # transformers ties nothing
    c["layer_norm_epsilon"] = c.pop("rms_norm_eps")
    c["mlp_hidden_act"] = "relu2"
    del c["num_hidden_layers"], c["hidden_act"]
    kinds = ["mamba", "attention", r.choice(["mlp", "moe"])]
    return c | {"layers_block_type": [r.choice(kinds) for _ in range(r.choice([2, 3, 5]))],
                "mamba_num_heads": 4, "mamba_head_dim": r.choice([8, 16]), "ssm_state_size": 16,
                "n_groups": r.choice([1, 2]), "conv_kernel": r.choice([2, 4]), "chunk_size": 16,
                "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                "moe_shared_expert_intermediate_size": 32, "n_group": 1, "topk_group": 1,
                "routed_scaling_factor": r.choice([1.0, 2.0])} | flags(
                    r, "use_conv_bias", "use_bias", "mlp_bias", "attention_bias", "norm_topk_prob")


def olmo2(r):
    return sizes(r, free=False) | flags(r, "attention_bias")


def olmo3(r):
    c = sizes(r, rope=False, free=False)
    D = c["hidden_size"] // c["num_attention_heads"]
    full = rotation(r, D)
    full.pop("truncate", None)  # transformers looks for it beside the kinds of layers, not in them
    return c | windowed(r, c) | flags(r, "attention_bias") | {
        "rope_parameters": {"full_attention": full, "sliding_attention": rotation(r, D, ())}}


def phi3(r):
    c, share = sizes(r, rope=False, free=False), r.choice([0.5, 1.0])
    D = c["hidden_size"] // c["num_attention_heads"]
    rope = rotation(r, int(D * share), ("longrope",)) | {"partial_rotary_factor": share}
    return c | {"sliding_window": r.choice([None, 5]), "rope_parameters": rope,
                "original_max_position_embeddings": r.choice([16, 64])}


def seed_oss(r):
    return sizes(r) | flags(r, "attention_bias", "attention_out_bias", "mlp_bias")


def smollm3(r):
    c = sizes(r, kinds=("linear", "yarn", "llama3"), free=False)
    return c | flags(r, "attention_bias", "mlp_bias") | {
        "no_rope_layers": [r.choice([0, 1]) for _ in range(c["num_hidden_layers"])]}


def encoder(r):
    H, D = r.choice([1, 2, 4]), r.choice([8, 16])
    return dict(vocab_size=r.choice([65, 96]), hidden_size=H * D, num_attention_heads=H,
                num_hidden_layers=r.choice([1, 2, 3]), intermediate_size=r.choice([32, 40]),
                max_position_embeddings=64, pad_token_id=r.choice([0, 1]), num_labels=3)


def bert(r):
    return encoder(r) | {"type_vocab_size": r.choice([1, 2, 3]), "hidden_act": r.choice(
        ACTIVATIONS), "layer_norm_eps": r.choice([1e-12, 1e-2])}


def modernbert(r):
    c = encoder(r)
    return c | flags(r, "norm_bias", "attention_bias", "mlp_bias", "classifier_bias") | {
        "hidden_activation": r.choice(ACTIVATIONS), "norm_eps": r.choice([1e-5, 1e-2]),
        "classifier_activation": r.choice(ACTIVATIONS), "local_attention": r.choice([4, 6, 128]),
        "classifier_pooling": r.choice(["cls", "mean"]),
        "layer_types": layer_types(r, c["num_hidden_layers"])}


FAMILIES = {f.__name__: f for f in (
    llama, mistral, ministral, ministral3, mixtral, qwen2, qwen3, qwen3_moe, qwen3_next,
    qwen3_5_text, qwen3_5_moe_text, gemma2, gemma3_text, cohere2, ernie4_5, exaone4, glm4,
    glm4_moe_lite, minicpm3, gpt_oss, granite, granitemoehybrid, falcon_h1, hunyuan_v1_dense, lfm2,
    lfm2_moe, lfm3, gemma4_text, nemotron_h, olmo2, olmo3, phi3, seed_oss, smollm3, bert, modernbert)}
FAMILIES |= {"roberta": bert, "xlm-roberta": bert}

# ---- models ----------------------------------------------------------------------------------------


def made(name, options, seed):
    """A model with random parameters, in which no part is negligible."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(name, **options)
    model = class_of(name).from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for path, x in model.named_parameters():
            if x.dim() == 1 and path.endswith("norm.weight") or "layernorm.weight" in path.lower():
                x.add_(torch.randn_like(x) * 0.2)
            elif "A_log" in path or path.endswith((".D", "dt_bias")):
                x.add_(torch.randn_like(x) * 0.1)
            elif x.dim() == 1:
                x.normal_(0, 0.3)
            else:
                x.normal_(0, 1.2 / x.shape[-1] ** 0.5)
        for path, x in model.named_buffers():
            if "bias" in path:
                x.normal_(0, 0.3)
    return model


def written(weft, name, r, folder):
    """The first of 60 drawn configurations that a GGUF file can have."""
    ACTIVATIONS[:] = ["gelu_pytorch_tanh" if "gemma" in name else "silu"]
    (folder / "gguf").mkdir()
    for _ in range(60):
        options = FAMILIES[name](r)
        made(name, options, 0).save_pretrained(folder)
        try:
            peers.run(weft, "convert", folder, folder / "gguf" / "model.gguf", "--type", "f32", "--force")
            break
        except RuntimeError as error:
            if "unsupported" not in str(error):
                break
    return options


def one(weft, name, seed, keep, check):
    r = random.Random(f"{name} {seed}")
    folder = Path(tempfile.mkdtemp())
    text = ""
    try:
        options = written(weft, name, r, folder) if check == "gguf" else FAMILIES[name](r)
        model = made(name, options, seed)
        model.save_pretrained(folder)
        off, more = CHECKS[check](weft, model, folder, r, seed)
        word, text = "ok" if off <= LIMIT else "FAIL", f"{off:.1e}{more}"
    except RuntimeError as error:
        text = str(error)[-400:]
        word = ("skipped" if "weft" not in text else
                "refused" if "unsupported" in text or "no GGUF" in text else "FAIL")
    except Exception as error:  # of transformers
        word, text = "skipped", f"{type(error).__name__}: {str(error)[:200]}"
    print(f"{word:8} {name:18} {check} {seed} {text} {options if word != 'ok' else ''}", flush=True)
    if keep and word in ("FAIL", "refused"):
        shutil.copytree(folder, Path(keep) / f"{name}-{seed}", dirs_exist_ok=True)
    shutil.rmtree(folder)
    return word


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=5)
    parser.add_argument("--check", default="logits", choices=CHECKS)
    parser.add_argument("--keep")
    o = parser.parse_intermixed_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    words = [one(o.weft, name, seed, o.keep, o.check) for name in o.families or FAMILIES
             for seed in range(o.seed, o.seed + o.number)]
    print({word: words.count(word) for word in sorted(set(words))})
    sys.exit("FAIL" in words)


if __name__ == "__main__":
    main()
