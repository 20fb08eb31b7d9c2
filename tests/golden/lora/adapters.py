"""Writes the runs of PEFT that are beyond plain LoRA.

    python3 tests/golden/lora/adapters.py [NAME...]

Each NAME/ gets what README.md says. Batches are those of lora-llama (vocabularies of 320). The
adapter's B is not zero at first, so that every matrix has a gradient from the first step.
"""
import json
import pathlib
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

here = pathlib.Path(__file__).parent
STEPS, LR, DECAY = 8, 0.005, 0.01
MORE_STEPS = {"lora-qwen3-moe": 20, "lora-mixtral": 20, "lora-gpt-oss": 20, "lora-lfm2": 20, "lora-lfm3": 20, "lora-granite4": 20, "lora-lfm2-moe": 20,
              "lora-granite4-moe": 20, "lora-falcon-h1": 20, "lora-nemotron-h": 20,
              "lora-glm4-moe-lite": 20, "lora-minicpm3": 20, "lora-qwen2-new": 20, "lora-llama-new": 20}
NEW_TOKENS = 3  # of the runs that end in -new

RUNS = {
    "lora-qwen3-patterns": ("qwen3", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"],
        rank_pattern={"v_proj": 2, r"layers\.1\.mlp\.down_proj": 6}, alpha_pattern={"q_proj": 3})),
    "lora-qwen3-pissa": ("qwen3", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"],
        init_lora_weights="pissa")),
    "lora-llama-embeddings": ("llama", dict(
        r=4, lora_alpha=8, target_modules=["embed_tokens", "lm_head", "q_proj"])),
    "lora-qwen2-tied": ("qwen2", dict(
        r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"])),
    "lora-llama-plus": ("llama", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])),
    "lora-llama-saved": ("llama", dict(
        r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["lm_head"])),
    "lora-qwen3-moe": ("qwen3-moe", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], rank_pattern={"down_proj": 2},
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "lora-qwen2-tokens": ("qwen2", dict(
        r=4, lora_alpha=8, target_modules=["q_proj"],
        trainable_token_indices={"embed_tokens": [115, 94, 6]})),
    "lora-llama-tokens": ("llama", dict(
        r=4, lora_alpha=8, target_modules=["q_proj"],
        trainable_token_indices={"embed_tokens": [115, 94, 6], "lm_head": [94, 74]})),
    "lora-qwen2-new": ("qwen2", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
        trainable_token_indices={"embed_tokens": [320, 321, 322]})),
    "lora-llama-new": ("llama", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
        trainable_token_indices={"embed_tokens": [6, 320, 321, 322],
                                 "lm_head": [320, 321, 322]})),
    "lora-gemma2": ("gemma2", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "o_proj", "down_proj"])),
    "lora-gpt-oss": ("gpt-oss", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "lora-lfm2": ("lfm2", dict(
        r=4, lora_alpha=8,
        target_modules=["q_proj", "v_proj", "in_proj", "out_proj", "w1", "w2", "w3"])),
    "lora-granite4": ("granite4", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "in_proj", "out_proj",
                                           "input_linear", "output_linear"])),
    "lora-lfm3": ("lfm3", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "g_proj", "out_proj", "in_proj",
                                           "w1", "w2"])),
    "lora-lfm2-moe": ("lfm2-moe", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "in_proj", "out_proj", "w1", "w2", "w3"],
        target_parameters=["feed_forward.gate.weight", "feed_forward.experts.gate_up_proj",
                           "feed_forward.experts.down_proj"])),
    "lora-granite4-moe": ("granite4-moe", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "in_proj", "out_proj", "input_linear"],
        target_parameters=["block_sparse_moe.router.weight",
                           "block_sparse_moe.experts.gate_up_proj"])),
    "lora-falcon-h1": ("falcon-h1", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "in_proj", "up_proj"])),
    "lora-nemotron-h": ("nemotron-h", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "in_proj", "up_proj", "down_proj"],
        target_parameters=["mixer.experts.up_proj", "mixer.gate.weight"])),
    "lora-glm4-moe-lite": ("glm4-moe-lite", dict(
        r=4, lora_alpha=8, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa",
                                           "kv_b_proj", "o_proj", "down_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "lora-minicpm3": ("minicpm3", dict(
        r=4, lora_alpha=8, target_modules=["q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj",
                                           "o_proj", "gate_proj"])),
    "lora-mixtral": ("mixtral", dict(
        r=3, lora_alpha=6, target_modules=[],
        target_parameters=["model.layers.1.mlp.experts.gate_up_proj"])),
}


def model_of(name):
    return AutoModelForCausalLM.from_pretrained(
        here / ".." / "models" / name, dtype=torch.float32, attn_implementation="eager")


def loss_of(model, ids, prompts):
    logits = model(input_ids=ids[:, :-1]).logits
    positions = torch.arange(1, ids.shape[1])
    labels = torch.where(positions[None] >= prompts[:, None], ids[:, 1:], -100)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main(name):
    base, options = RUNS[name]
    given = load_file(here / "lora-llama" / "trajectory.safetensors")
    steps = MORE_STEPS.get(name, STEPS)
    batches, prompts = given["batches"][:steps].long(), given["prompt_lengths"][:steps].long()
    torch.manual_seed(1)
    plain = model_of(base)
    batches = batches % plain.config.vocab_size
    new = name.endswith("-new")
    if new:  # every fifth token becomes one of the new ones
        batches = torch.where(batches % 5 == 0, 320 + batches % NEW_TOKENS, batches)
        plain.resize_token_embeddings(plain.config.vocab_size + NEW_TOKENS)
    model = get_peft_model(plain, LoraConfig(task_type="CAUSAL_LM", **options))
    model.peft_config["default"].base_model_name_or_path = f"../../models/{base}"
    model.train()
    pissa = "init_lora_weights" in options
    for key, parameter in model.named_parameters():
        if not pissa and ("lora_B" in key or "lora_embedding_A" in key):
            torch.nn.init.normal_(parameter, std=0.05)
    out = here / name
    out.mkdir(exist_ok=True)
    if pissa:
        start = tempfile.mkdtemp()
        model.peft_config["default"].init_lora_weights = True
        model.save_pretrained(start)
        model.peft_config["default"].init_lora_weights = "pissa"
    else:
        model.save_pretrained(out / "initial", save_embedding_layers=False if new else "auto")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LR, weight_decay=DECAY)
    if name.endswith("plus"):
        optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, lr=LR, loraplus_lr_ratio=4.0,
                                              weight_decay=DECAY, loraplus_weight_decay=DECAY)
    losses, norms = [], []
    for ids, lengths in zip(batches, prompts):
        optimizer.zero_grad()
        loss = loss_of(model, ids, lengths)
        loss.backward()
        norms.append(torch.linalg.vector_norm(torch.stack(
            [torch.linalg.vector_norm(p.grad.double()) for p in trained])).item())
        losses.append(loss.item())
        optimizer.step()
    model.eval()
    with torch.no_grad():
        final = model(input_ids=batches[0]).logits
    if pissa:
        model.save_pretrained(out / "final", path_initial_model_for_weight_conversion=start)
    else:
        # Of a resized model PEFT also saves whole matrices, unless it is told not to.
        model.save_pretrained(out / "final", save_embedding_layers=name == "lora-qwen2-new" or (False if new else "auto"))
    for folder in (out / "initial", out / "final"):
        (folder / "README.md").unlink(missing_ok=True)
    recipe = {**options, "steps": steps, "lr": LR, "weight_decay": DECAY,
              "targets": sorted(model.peft_config["default"].target_modules)}
    (out / "recipe.json").write_text(json.dumps(recipe) + "\n")
    save_file({"batches": batches.int(), "prompt_lengths": prompts.int(),
               "losses": torch.tensor(losses, dtype=torch.float64),
               "grad_norms": torch.tensor(norms, dtype=torch.float64),
               "final_logits": final.contiguous()}, out / "trajectory.safetensors")
    print(name, [round(x, 4) for x in losses], recipe["targets"])


for name in sys.argv[1:] or RUNS:
    main(name)
