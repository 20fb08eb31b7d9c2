"""Writes tiny multimodal models with transformers, and adapters of them with PEFT.

    python3 tests/golden/wrapped/wrapped.py [NAME...]
"""
import pathlib
import shutil
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    Gemma3Config, Gemma3ForConditionalGeneration, Gemma4Config, Gemma4ForConditionalGeneration,
    Ministral3Config, Mistral3Config, Mistral3ForConditionalGeneration, PixtralVisionConfig,
    Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration)

here = pathlib.Path(__file__).parent
VOCABULARY = 64
TEXT = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=128,
            pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
              patch_size=4)
HYBRID = dict(layer_types=["linear_attention", "full_attention"], linear_num_key_heads=1,
              linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
              tie_word_embeddings=False)
SEEING = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=4,
              out_hidden_size=16, num_position_embeddings=16)
SEEING_TOKENS = dict(image_token_id=60, video_token_id=59, vision_start_token_id=58,
                     vision_end_token_id=57)


def gemma3():
    return Gemma3ForConditionalGeneration(Gemma3Config(
        text_config=dict(TEXT, sliding_window=8,
                         layer_types=["sliding_attention", "full_attention"]),
        vision_config=dict(VISION, image_size=8), mm_tokens_per_image=4, image_token_index=60,
        boi_token_index=61, eoi_token_index=62))


def gemma4():
    """The last two layers use the keys and values of the first two."""
    return Gemma4ForConditionalGeneration(Gemma4Config(
        text_config=dict(TEXT, num_hidden_layers=4, sliding_window=8,
                         layer_types=["sliding_attention", "full_attention"] * 2,
                         hidden_size_per_layer_input=4, vocab_size_per_layer_input=VOCABULARY,
                         global_head_dim=8, num_kv_shared_layers=2),
        vision_config=dict(VISION, model_type="gemma4_vision", num_key_value_heads=2, head_dim=4,
                           position_embedding_size=16),
        audio_config=None, image_token_id=60, audio_token_id=59, video_token_id=58))


def mistral3():
    """The text model is Ministral 3's, and only the whole configuration says that it is tied."""
    rope = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32,
                beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                llama_4_scaling_beta=0.1)
    return Mistral3ForConditionalGeneration(Mistral3Config(
        text_config=Ministral3Config(**TEXT, sliding_window=None, tie_word_embeddings=False,
                                     rope_parameters=rope),
        vision_config=PixtralVisionConfig(**VISION, image_size=8, head_dim=4),
        image_token_index=60, spatial_merge_size=1))


def qwen3_5():
    return Qwen3_5ForConditionalGeneration(Qwen3_5Config(
        text_config=dict(TEXT, **HYBRID), vision_config=SEEING, **SEEING_TOKENS))


def qwen3_5_moe():
    return Qwen3_5MoeForConditionalGeneration(Qwen3_5MoeConfig(
        text_config=dict(TEXT, **HYBRID, num_experts=4, num_experts_per_tok=2,
                         moe_intermediate_size=8, shared_expert_intermediate_size=8),
        vision_config=SEEING, **SEEING_TOKENS))


MODELS = {"gemma3": gemma3, "gemma4": gemma4, "mistral3": mistral3, "qwen3-5": qwen3_5,
          "qwen3-5-moe": qwen3_5_moe}


def randomize(model, kind, scale):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if kind in name:
                p.copy_(torch.randn(p.shape) * scale)


def save_base(model, folder):
    with tempfile.TemporaryDirectory() as whole:
        model.save_pretrained(whole)
        state = load_file(f"{whole}/model.safetensors")
        shutil.copy(f"{whole}/config.json", folder)
    if model.config.model_type.startswith("qwen3_5"):  # as published; transformers ignores it
        state["mtp.fc.weight"] = torch.randn(4, 8)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def module_names(model):
    kinds = torch.nn.Linear, torch.nn.Embedding
    return [name for name, m in model.named_modules() if isinstance(m, kinds)]


KINDS = {  # how a configuration selects modules, and what PEFT saves beside adapters
    "excluded": dict(target_modules=["q_proj", "k_proj", "down_proj"],
                     exclude_modules=r".*(layers\.0|vision|visual).*"),
    "tied-whole": dict(target_modules=["down_proj"], modules_to_save=["embed_tokens"],
                       ensure_weight_tying=True),
    "tied-target": dict(target_modules=["embed_tokens", "down_proj"], ensure_weight_tying=True),
    "resized": dict(target_modules=["down_proj"]),
    "resized-whole": dict(target_modules=["down_proj"],
                          modules_to_save=["embed_tokens", "lm_head"]),
}


def write_kinds(name):
    """With embedding and head tied (gemma3) and separate (qwen3-5)."""
    for kind, options in KINDS.items():
        torch.manual_seed(12)
        folder = here / name / "kinds" / kind
        model = type(MODELS[name]()).from_pretrained(here / name)
        if kind.startswith("resized"):
            model.resize_token_embeddings(VOCABULARY + 3)
        model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, task_type="CAUSAL_LM", **options))
        for p in ("lora_", "modules_to_save"):
            randomize(model, p, 0.1)
        ids = torch.randint(5, VOCABULARY + 3 * kind.startswith("resized"), (1, 10))
        with torch.no_grad():
            logits = model.eval()(input_ids=ids).logits
        model.save_pretrained(folder, save_embedding_layers=kind.startswith("resized") or "auto")
        (folder / "README.md").unlink()
        save_file({"input_ids": ids.int(), "logits": logits}, folder / "reference.safetensors")


def write(name):
    torch.manual_seed(11)
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = MODELS[name]().float().eval()
    randomize(model, "", 0.2)
    save_base(model, folder)
    (folder / "modules.txt").write_text("\n".join(module_names(model)) + "\n")
    ids = torch.randint(5, 50, (1, 10))
    expected = {"input_ids": ids.int(), "logits": model(input_ids=ids).logits.detach()}
    model = get_peft_model(model, LoraConfig(
        r=4, lora_alpha=8, target_modules=r".*language_model.*\.(q_proj|down_proj|in_proj_qkv)",
        rank_pattern={r"^model.language_model.layers.1.self_attn.q_proj": 2}))
    randomize(model, "lora_", 0.1)
    expected["adapted"] = model.eval()(input_ids=ids).logits.detach()
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    save_file(expected, folder / "reference.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        write(name)
        if name in ("gemma3", "qwen3-5"):
            write_kinds(name)
