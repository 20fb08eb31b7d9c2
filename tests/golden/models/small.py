"""Tiny random models with what transformers computes from them, for what the larger ones leave out.

    python small.py [NAME...]

Each folder NAME gets config.json, model.safetensors and reference.safetensors (README.md). Weights
are random, gains too, so that a norm in a wrong place shows. Names, prefixes and the style of
config.json are written by hand where the point of a model is that files differ in them.
"""
import json
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
VOCABULARY, LENGTH, PROMPT, TOTAL = 96, 40, 12, 36
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6,
             max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)


def build(config_class, seed, **keys):
    torch.manual_seed(seed)
    config = config_class(**{**SIZES, **keys})
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            one = p.ndim == 1
            p.copy_(torch.randn_like(p) * (0.2 if one else 0.15) + (1.0 if one else 0.0))
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):
                b.fill_(0.5 + torch.rand(()))
    return model


@torch.no_grad()
def reference(model):
    ids = torch.randint(3, VOCABULARY, (2, LENGTH))
    greedy = ids[:1, :PROMPT]
    while greedy.shape[1] < TOTAL:
        logits = model(greedy, use_cache=False).logits[:, -1]
        greedy = torch.cat([greedy, logits.argmax(-1, keepdim=True)], 1)
    return {"input_ids": ids.int(), "logits": model(ids, use_cache=False).logits.float(),
            "greedy": greedy.int()}


def weights(model):
    state = {k: v.contiguous().clone() for k, v in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    return state


def stored(model):
    """As transformers writes them, whose names may differ from those of the modules."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def write(name, config, state, expected):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(state, folder / "model.safetensors")
    save_file(expected, folder / "reference.safetensors")
    print(name, sum((folder / f).stat().st_size for f in ("model.safetensors",
                                                          "reference.safetensors")) // 1024, "KiB")


def keys(model_type, **more):
    return {"model_type": model_type, **SIZES, **more}


def renamed(state, prefix, towers=()):
    out = {}
    for name, value in state.items():
        if name.startswith("model."):
            out[prefix + name[len("model."):]] = value
        else:
            out[prefix[:-len("model.")] + name if prefix.endswith("model.") else name] = value
    for tower in towers:
        out[tower + ".patch.weight"] = torch.zeros(2, 2)
    return out


def ropes():
    """Each rule of scaling on one llama; LENGTH is beyond 38, and TOTAL is not."""
    from transformers import LlamaConfig
    half = SIZES["head_dim"] // 2
    short, long = ([1 + 0.1 * j for j in range(half)], [1.5 + 0.4 * j for j in range(half)])
    rules = {
        "rope-linear": dict(rope_type="linear", factor=4.0),
        "rope-yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
        "rope-dynamic": dict(rope_type="dynamic", factor=3.0),
        "rope-longrope": dict(rope_type="longrope", short_factor=short, long_factor=long,
                              factor=4.0, original_max_position_embeddings=38),
    }
    for seed, (name, rule) in enumerate(rules.items()):
        places = {"rope-dynamic": 38, "rope-longrope": 152, "rope-yarn": 128}.get(name, 256)
        model = build(LlamaConfig, 100 + seed, max_position_embeddings=places,
                      rope_parameters={"rope_theta": 10000.0, **rule})
        old = {("type" if k == "rope_type" else k): v for k, v in rule.items()}
        config = keys("llama", rope_theta=10000.0, rope_scaling=old)
        config["max_position_embeddings"] = places
        if name == "rope-longrope":  # where phi writes it
            config["original_max_position_embeddings"] = old.pop("original_max_position_embeddings")
            old.pop("factor")
        yield name, config, weights(model), reference(model)


def mixtral():
    from transformers import MixtralConfig
    model = build(MixtralConfig, 1, num_local_experts=4, num_experts_per_tok=2,
                  sliding_window=None, tie_word_embeddings=False)
    state, F = {}, SIZES["intermediate_size"]
    for name, value in weights(model).items():
        base = name.replace(".mlp.", ".block_sparse_moe.")
        if name.endswith("experts.gate_up_proj"):
            for e in range(value.shape[0]):
                at = base[:-len("gate_up_proj")] + f"{e}."
                state[at + "w1.weight"] = value[e, :F].contiguous()
                state[at + "w3.weight"] = value[e, F:].contiguous()
        elif name.endswith("experts.down_proj"):
            for e in range(value.shape[0]):
                state[base[:-len("down_proj")] + f"{e}.w2.weight"] = value[e].contiguous()
        else:
            state[base] = value
    config = keys("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
                  rope_theta=1e6)
    config["tie_word_embeddings"] = False
    yield "mixtral", config, state, reference(model)


def qwen3_moe():
    """A dense layer among the sparse ones, shares that are not normalized, tensors in one stack."""
    from transformers import Qwen3MoeConfig
    more = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_hidden_layers=3,
                norm_topk_prob=False, mlp_only_layers=[1], decoder_sparse_step=1)
    model = build(Qwen3MoeConfig, 2, **more)
    yield "qwen3-moe-mixed", keys("qwen3_moe", rope_theta=10000.0) | more, weights(model), \
        reference(model)


def ministral():
    from transformers import Ministral3Config, MinistralConfig, MistralConfig
    kinds = ["sliding_attention", "full_attention"]
    model = build(MinistralConfig, 3, sliding_window=8, layer_types=kinds)
    yield "ministral", keys("ministral", sliding_window=8, layer_types=kinds, rope_theta=10000.0), \
        weights(model), reference(model)
    rope = dict(rope_type="yarn", rope_theta=1e6, factor=16.0, beta_fast=32.0, beta_slow=1.0,
                mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=16,
                llama_4_scaling_beta=0.1)
    model = build(Ministral3Config, 4, rope_parameters=dict(rope))
    inner = keys("ministral3", rope_parameters=rope)
    inner.pop("tie_word_embeddings")
    yield "ministral3", {"model_type": "mistral3", "text_config": inner,
                         "tie_word_embeddings": True, "vision_config": {"hidden_size": 8}}, \
        renamed(weights(model), "language_model.model.",
                ["vision_tower", "multi_modal_projector"]), reference(model)
    model = build(MistralConfig, 5, sliding_window=None, tie_word_embeddings=False)
    inner = keys("mistral", sliding_window=None, rope_theta=10000.0)
    inner.pop("model_type")
    inner["tie_word_embeddings"] = False
    yield "mistral3", {"model_type": "mistral3", "text_config": inner}, \
        renamed(weights(model), "language_model.model.", ["vision_tower"]), reference(model)


def gemma3():
    """Inside the model that also sees, in the older style, with scaling of full layers only."""
    from transformers import Gemma3TextConfig
    model = build(Gemma3TextConfig, 6, num_hidden_layers=3, sliding_window=8,
                  sliding_window_pattern=2, query_pre_attn_scalar=24,
                  layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                  rope_parameters={
                      "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                      "sliding_attention": dict(rope_type="default", rope_theta=1e4)})
    inner = keys("gemma3_text", num_hidden_layers=3, sliding_window=8, sliding_window_pattern=2,
                 query_pre_attn_scalar=24, rope_theta=1e6, rope_local_base_freq=1e4,
                 rope_scaling={"rope_type": "linear", "factor": 8.0}, hidden_act="gelu")
    yield "gemma3-wrapped", {"model_type": "gemma3", "text_config": inner,
                             "vision_config": {"hidden_size": 8}}, \
        renamed(weights(model), "language_model.model.", ["vision_tower"]), reference(model)


def gemma4():
    """Double-wide MLPs, shared keys, inputs of each layer's own, scalars that are not 1."""
    from transformers import Gemma4TextConfig
    kinds = (["sliding_attention"] * 2 + ["full_attention"]) * 2
    more = dict(num_hidden_layers=6, sliding_window=8, layer_types=kinds,
                hidden_size_per_layer_input=4, intermediate_size=24, num_attention_heads=2,
                num_key_value_heads=1, vocab_size_per_layer_input=VOCABULARY,
                num_kv_shared_layers=3, use_double_wide_mlp=True, final_logit_softcapping=30.0,
                attention_k_eq_v=False, global_head_dim=32, head_dim=16,
                rope_parameters={
                    "full_attention": dict(rope_type="proportional", partial_rotary_factor=0.25,
                                           rope_theta=1e6),
                    "sliding_attention": dict(rope_type="default", rope_theta=1e4)})
    model = build(Gemma4TextConfig, 7, **more)
    state = weights(model)
    for i in range(3, 6):  # as older files have it
        state[f"model.layers.{i}.self_attn.k_proj.weight"] = torch.zeros(2, 2)
        state[f"model.layers.{i}.self_attn.k_norm.weight"] = torch.zeros(2)
    yield "gemma4-wrapped", {"model_type": "gemma4", "tie_word_embeddings": True,
                             "text_config": keys("gemma4_text") | more,
                             "audio_config": {}}, \
        renamed(state, "model.language_model.", ["model.audio_tower"]), reference(model)


# llama.cpp's readers of these two expect that all heads together are as wide as the hidden states.


def olmo2():
    from transformers import Olmo2Config
    more = dict(hidden_size=64, tie_word_embeddings=False)
    model = build(Olmo2Config, 8, **more)
    config = keys("olmo2", rope_theta=10000.0) | more
    yield "olmo2", config, weights(model), reference(model)


def phi3():
    """A share of the head that rotates, a window; and longrope, whose factors switch at 24."""
    from transformers import Phi3Config
    more = dict(hidden_size=64, partial_rotary_factor=0.75, sliding_window=8,
                original_max_position_embeddings=256)
    model = build(Phi3Config, 9, rope_theta=10000.0, **more)
    yield "phi3", keys("phi3", rope_theta=10000.0) | more, weights(model), reference(model)
    rotated = int(SIZES["head_dim"] * 0.75) // 2
    more |= dict(sliding_window=None, original_max_position_embeddings=24)
    rope = dict(type="longrope", short_factor=[1 + 0.1 * j for j in range(rotated)],
                long_factor=[1.5 + 0.4 * j for j in range(rotated)])
    model = build(Phi3Config, 10, rope_theta=10000.0, rope_scaling=dict(rope), **more)
    yield "phi3-longrope", keys("phi3", rope_theta=10000.0, rope_scaling=rope) | more, \
        weights(model), reference(model)


# Heads that together are as wide as the hidden states, which llama.cpp expects of some.
NARROW = dict(head_dim=8, tie_word_embeddings=False)


def relatives():
    """Llama with other scales, norms and rotations: one family each."""
    import transformers as t
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    plain = dict(rope_type="default", rope_theta=10000.0)
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0,
                attention_factor=1.2079441541679836, original_max_position_embeddings=32)
    families = {
        "smollm3": (t.SmolLM3Config, dict(num_hidden_layers=4, tie_word_embeddings=True)),
        "granite": (t.GraniteConfig, dict(embedding_multiplier=3.0, attention_multiplier=0.25,
                                          residual_multiplier=0.5, logits_scaling=4.0)),
        "olmo3": (t.Olmo3Config, dict(
            num_hidden_layers=4, sliding_window=8, layer_types=kinds,
            rope_parameters={"full_attention": yarn, "sliding_attention": plain})),
        "glm4": (t.Glm4Config, dict(rope_parameters=plain | {"partial_rotary_factor": 0.5},
                                    attention_bias=True)),
        "seed_oss": (t.SeedOssConfig, dict(attention_bias=True)),
        "ernie4_5": (t.Ernie4_5Config, dict(tie_word_embeddings=True)),
        "hunyuan_v1_dense": (t.HunYuanDenseV1Config, dict(rope_parameters=dict(
            rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0))),
        "exaone4": (t.Exaone4Config, dict(sliding_window=None, layer_types=kinds[3:] * 2)),
        "exaone4-hybrid": (t.Exaone4Config, dict(
            num_hidden_layers=4, sliding_window=8, layer_types=kinds)),
        "cohere2": (t.Cohere2Config, dict(
            num_hidden_layers=4, sliding_window=8, layer_types=kinds, logit_scale=0.5,
            tie_word_embeddings=True)),
    }
    for seed, (name, (config_class, more)) in enumerate(families.items()):
        more = NARROW | {"rope_parameters": plain} | more
        model = build(config_class, 200 + seed, **json.loads(json.dumps(more)))
        yield name, keys(config_class.model_type) | more, weights(model), reference(model)


def gpt_oss():
    """Sinks, gates and ups that alternate, biases everywhere: dense, and with experts in MXFP4 as
    they were published."""
    from transformers import GptOssConfig
    more = dict(intermediate_size=32, tie_word_embeddings=False, sliding_window=8,
                layer_types=["sliding_attention", "full_attention"], num_local_experts=4,
                num_experts_per_tok=2, swiglu_limit=7.0, swiglu_alpha=1.702, attention_bias=True,
                rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0,
                                     beta_fast=32.0, beta_slow=1.0, truncate=False,
                                     original_max_position_embeddings=32))
    model = build(GptOssConfig, 300, **more)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(shifted(name, p))
    yield "gpt-oss", keys("gpt_oss") | more, weights(model), reference(model)

    model = build(GptOssConfig, 301, **more)
    state = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("gate_up_proj", "down_proj")):
                shape = (p.shape[0], p.shape[2], p.shape[1] // 32)  # out-major
                state[name + "_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8)
                state[name + "_scales"] = torch.randint(121, 125, shape, dtype=torch.uint8)
                p.copy_(mxfp4(state[name + "_blocks"], state[name + "_scales"]).mT)
            else:
                p.copy_(shifted(name, p).bfloat16())
                state[name] = p.bfloat16()
    config = keys("gpt_oss") | more
    rope = config.pop("rope_parameters")  # the older style, as published
    config |= dict(rope_theta=rope.pop("rope_theta"), rope_scaling=rope, dtype="bfloat16",
                   quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=[
                       "model.layers.*.self_attn", "model.layers.*.mlp.router",
                       "model.embed_tokens", "lm_head"]))
    yield "gpt-oss-mxfp4", config, state, reference(model)


def lfm2():
    """As published: names of its own for sizes, and attention by index; and with biases."""
    from transformers import Lfm2Config
    more = dict(num_hidden_layers=4, norm_eps=1e-5, conv_L_cache=3, conv_bias=False,
                block_multiple_of=8, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True,
                full_attn_idxs=[1, 3], rope_theta=1e6, head_dim=8)
    model = build(Lfm2Config, 310, block_ff_dim=72, **more)
    config = keys("lfm2") | more | {"block_ff_dim": 72, "tie_embedding": True}
    for key in ("intermediate_size", "tie_word_embeddings", "rms_norm_eps"):
        config.pop(key)
    yield "lfm2", config, weights(model), reference(model)
    more = dict(num_hidden_layers=3, conv_L_cache=4, conv_bias=True, **NARROW,
                block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention", "conv"],
                rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    model = build(Lfm2Config, 311, **more)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(shifted(name, p))
    yield "lfm2-bias", keys("lfm2") | more, weights(model), reference(model)


def lfm2_moe():
    """Experts after a dense layer, chosen with a bias; and weights without it that are scaled."""
    from transformers import Lfm2MoeConfig
    more = dict(num_hidden_layers=4, norm_eps=1e-5, conv_L_cache=3, conv_bias=False, head_dim=8,
                layer_types=["conv", "full_attention", "conv", "full_attention"],
                num_dense_layers=1, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                norm_topk_prob=True, routed_scaling_factor=1.0, use_expert_bias=True,
                rope_parameters=dict(rope_type="default", rope_theta=1e6))
    for seed, (name, changes) in enumerate([
            ("lfm2-moe", {}),
            ("lfm2-moe-scaled", dict(num_dense_layers=2, norm_topk_prob=False, num_experts=4,
                                     routed_scaling_factor=2.5, use_expert_bias=False))]):
        model = build(Lfm2MoeConfig, 330 + seed, **more | changes)
        with torch.no_grad():
            for key, b in model.named_buffers():
                if key.endswith("expert_bias"):
                    b.copy_(torch.randn_like(b) * 0.3)
        yield name, keys("lfm2_moe") | more | changes, stored(model), reference(model)


def lfm3():
    """Convolutions, a window, gates of heads, norms after both branches; and without the latter two,
    with biases."""
    from transformers import Lfm3Config
    kinds = ["conv", "sliding_attention", "full_attention", "conv"]
    more = dict(num_hidden_layers=4, layer_types=kinds, norm_eps=1e-5, conv_L_cache=4, head_dim=16,
                sliding_window=6, rope_parameters=dict(
                    sliding_attention=dict(rope_type="default", rope_theta=1e4),
                    full_attention=dict(rope_type="proportional", rope_theta=1e6,
                                        partial_rotary_factor=0.5)))
    for seed, (name, changes, written) in enumerate([
            ("lfm3", {}, {}),
            ("lfm3-plain", dict(use_sandwich_norm=False, use_attention_gate=False, conv_bias=True,
                                attention_bias=True, num_hidden_layers=5,
                                layer_types=[kinds[i] for i in (0, 0, 2, 0, 1)]),
             {"layer_types": None})]):
        model = build(Lfm3Config, 370 + seed, **more | changes)
        config = keys("lfm3") | more | changes | written | dict(norm_eps=model.config.norm_eps)
        config = {k: v for k, v in config.items() if v is not None and k != "rms_norm_eps"}
        yield name, config, stored(model), reference(model)


def granite4():
    """Layers of Mamba 2 and attention without positions, an MLP in one matrix; and with experts
    beside it and limited steps. As GGUF files can be: with experts and positions, and without
    Mamba 2."""
    from transformers import GraniteMoeHybridConfig
    kinds = ["linear_attention", "full_attention", "linear_attention", "linear_attention"]
    more = dict(num_hidden_layers=4, layer_types=kinds, num_local_experts=0, num_experts_per_tok=0,
                shared_intermediate_size=40, embedding_multiplier=3.0, attention_multiplier=0.25,
                residual_multiplier=0.5, logits_scaling=4.0, mamba_n_heads=8, mamba_n_groups=2,
                mamba_d_state=12, mamba_d_head=8, mamba_d_conv=4, mamba_expand=2,
                mamba_conv_bias=True, mamba_proj_bias=False, position_embedding_type="nope",
                head_dim=8)
    for seed, (name, changes, written) in enumerate([
            ("granite4", {}, {"layer_types": ["mamba", "attention", "mamba", "mamba"]}),
            ("granite4-rope", dict(mamba_proj_bias=True, mamba_conv_bias=False, mamba_n_groups=1,
                                   position_embedding_type="rope"), {}),
            ("granite4-moe", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24,
                                  time_step_limit=[0.05, 0.4]), {}),
            ("granite4-experts", dict(num_local_experts=4, num_experts_per_tok=2,
                                      intermediate_size=24, position_embedding_type="rope"), {}),
            ("granite4-attention", dict(layer_types=["full_attention"] * 4,
                                        position_embedding_type="rope"), {})]):
        model = build(GraniteMoeHybridConfig, 320 + seed, **more | changes)
        randomize_mamba(model)
        yield name, keys("granitemoehybrid") | more | changes | written, stored(model), \
            reference(model)


def falcon_h1():
    """Attention beside Mamba 2, with scales; and with norms before and after the gate, and biases."""
    from transformers import FalconH1Config
    more = dict(num_hidden_layers=3, head_dim=8, mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8,
                mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=4, embedding_multiplier=3.0,
                lm_head_multiplier=0.5, key_multiplier=0.7, attention_in_multiplier=1.2,
                attention_out_multiplier=0.8, ssm_in_multiplier=1.3, ssm_out_multiplier=0.6,
                ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7], mlp_multipliers=[0.6, 1.4],
                rope_parameters=dict(rope_type="default", rope_theta=1e5))
    for seed, (name, changes) in enumerate([
            ("falcon-h1", {}),
            ("falcon-h1-norm", dict(mamba_rms_norm=True, mamba_norm_before_gate=True,
                                    mamba_proj_bias=True, projectors_bias=True, mlp_bias=True,
                                    attention_bias=True)),
            ("falcon-h1-gate", dict(mamba_rms_norm=True, mamba_norm_before_gate=False,
                                    mamba_conv_bias=False, mamba_d_ssm=None, mamba_d_head=16,
                                    mamba_n_heads=4))]):
        model = build(FalconH1Config, 340 + seed, **more | changes)
        randomize_mamba(model)
        yield name, keys("falcon_h1") | more | changes, stored(model), reference(model)


def nemotron_h():
    """Each kind of layer, by name; and by letters, with biases and experts of another width. As GGUF
    files can be: without experts, without MLPs, and without attention."""
    from transformers import NemotronHConfig
    kinds = ["linear_attention", "mlp", "full_attention", "moe", "linear_attention"]
    more = dict(layers_block_type=kinds, layer_norm_epsilon=1e-5, mamba_num_heads=6,
                mamba_head_dim=8, n_groups=2, ssm_state_size=12, conv_kernel=4, time_step_min=0.1,
                n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24,
                moe_shared_expert_intermediate_size=40, routed_scaling_factor=1.0, head_dim=16,
                tie_word_embeddings=False)
    for seed, (name, changes, letters) in enumerate([
            ("nemotron-h", {}, None),
            ("nemotron-h-latent", dict(
                layers_block_type=[kinds[i] for i in (3, 2, 0, 3)], routed_scaling_factor=2.5,
                mlp_bias=True, use_bias=True, use_conv_bias=False, moe_latent_size=20,
                norm_topk_prob=False), "E*ME"),
            ("nemotron-h-dense", dict(layers_block_type=[kinds[i] for i in (1, 2, 0, 1)],
                                      time_step_min=0.001), "-*M-"),
            ("nemotron-h-experts", dict(
                layers_block_type=[kinds[i] for i in (0, 3, 2, 3)], routed_scaling_factor=2.5,
                moe_latent_size=20, norm_topk_prob=False, time_step_min=0.001), None),
            ("nemotron-h-mamba", dict(layers_block_type=[kinds[i] for i in (0, 1, 4)],
                                      time_step_min=0.001), "M-M")]):
        model = build(NemotronHConfig, 350 + seed, **more | changes)
        randomize_mamba(model)
        with torch.no_grad():
            for key, b in model.named_buffers():
                if key.endswith("e_score_correction_bias"):
                    b.copy_(torch.randn_like(b) * 0.3)
        config = keys("nemotron_h") | more | changes
        config.pop("num_hidden_layers")
        if letters:
            config.pop("layers_block_type")
            config |= dict(hybrid_override_pattern=letters, num_hidden_layers=len(letters))
        yield name, config, stored(model), reference(model)


def latent():
    """Latent attention: GLM-4.7-Flash with a layer of multi-token prediction to drop; with groups of
    experts, biases, queries in one product, yarn's factor of scores and another order of rotation.
    MiniCPM 3; and without its scales, with longrope, beyond whose first length LENGTH is."""
    from transformers import Glm4MoeLiteConfig, MiniCPM3Config
    sizes = dict(q_lora_rank=20, kv_lora_rank=32, qk_nope_head_dim=12, qk_rope_head_dim=8,
                 v_head_dim=10, num_key_value_heads=4, num_attention_heads=4)
    more = sizes | dict(num_hidden_layers=3, n_routed_experts=6, num_experts_per_tok=2,
                        n_shared_experts=2, moe_intermediate_size=20, routed_scaling_factor=1.8,
                        norm_topk_prob=True, tie_word_embeddings=False, rms_norm_eps=1e-5,
                        rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=1.0, mscale_all_dim=0.8,
                original_max_position_embeddings=32)
    other = dict(n_group=3, topk_group=2, norm_topk_prob=False, attention_bias=True,
                 q_lora_rank=None, rope_interleave=False, max_position_embeddings=128,
                 rope_parameters=yarn, mlp_layer_types=["sparse", "dense", "sparse"])
    for seed, (name, changes) in enumerate([("glm4-moe-lite", {}), ("glm4-moe-lite-groups", other)]):
        model = build(Glm4MoeLiteConfig, 360 + seed, **without_head_dim(more | changes))
        with torch.no_grad():
            for key, b in model.named_buffers():
                if key.endswith("e_score_correction_bias"):
                    b.copy_(torch.randn_like(b) * 0.3)
        state, config = stored(model), keys("glm4_moe_lite") | more | changes
        config.pop("head_dim")
        if not changes:
            config["num_nextn_predict_layers"] = 1
            for key, value in list(state.items()):
                if key.startswith("model.layers.2."):
                    state[key.replace("layers.2", "layers.3")] = value.clone()
            state["model.layers.3.eh_proj.weight"] = torch.zeros(32, 64)
        yield name, config, state, reference(model)
    half = sizes["qk_rope_head_dim"] // 2
    rope = dict(rope_type="longrope", rope_theta=10000.0, factor=4.0,
                original_max_position_embeddings=38, short_factor=[1.0 + 0.1 * j for j in range(half)],
                long_factor=[1.5 + 0.4 * j for j in range(half)])
    more = sizes | dict(scale_emb=3, scale_depth=1.4, dim_model_base=16, rms_norm_eps=1e-5,
                        rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    plain = dict(scale_emb=1, scale_depth=None, dim_model_base=None, q_lora_rank=None, mlp_bias=True,
                 attention_bias=True, v_head_dim=None, max_position_embeddings=152,
                 rope_parameters=rope)
    published = dict(scale_emb=12, dim_model_base=256, v_head_dim=None, rope_parameters=rope)
    for seed, (name, changes) in enumerate([("minicpm3", {}), ("minicpm3-plain", plain),
                                            ("minicpm3-published", published)]):
        model = build(MiniCPM3Config, 370 + seed, **without_head_dim(more | changes))
        config = keys("minicpm3") | more | changes
        config.pop("head_dim")
        yield name, config, weights(model), reference(model)


def without_head_dim(more):
    """build() with sizes of its own; there head_dim is that of the rotated part."""
    return more | dict(head_dim=more["qk_rope_head_dim"])


def randomize_mamba(model):
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("A_log"):  # some heads forget at once, some hardly
                p.copy_(torch.empty_like(p).uniform_(0.02, 2).log())
            elif key.endswith("dt_bias"):
                p.copy_(torch.randn_like(p) * 0.5 - 1)
            else:
                p.copy_(shifted(key, p))


def shifted(name, p):
    """Biases around 0; those of gates and ups so large that the limit of the activation counts."""
    bias = name.endswith("bias") and p.ndim == 1
    return p * 25 if name.endswith("gate_up_proj_bias") else p - 1.0 if bias else p


def mxfp4(blocks, scales):
    """Blocks (..., 16) of 32 values, low halves of bytes first, times 2^(scale - 127)."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
    x = values[codes & 7] * torch.where(codes > 7, -1.0, 1.0)
    return (x * torch.exp2(scales.float() - 127)[..., None]).flatten(-2)


def main():
    wanted = sys.argv[1:]
    for make in (ropes, mixtral, qwen3_moe, ministral, gemma3, gemma4, olmo2, phi3, relatives,
                 gpt_oss, lfm2, lfm2_moe, lfm3, granite4, falcon_h1, nemotron_h,
                 latent):
        for name, config, state, expected in make():
            if not wanted or name in wanted:
                write(name, config, state, expected)


if __name__ == "__main__":
    main()
