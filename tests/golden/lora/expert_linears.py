"""Writes linears-qwen3-moe and linears-mixtral: PEFT adapters of transformers before version 5, which
has a linear for each expert.

    pip install --target OLD --no-deps transformers==4.57.1 tokenizers==0.22.1 \\
        huggingface-hub==0.36.0 peft==0.18.0
    PYTHONPATH=OLD python3 tests/golden/lora/expert_linears.py

Each folder has an adapter of attention and experts, logits.safetensors with ids (2, 12) and the logits
(2, 12, V) that PEFT computes with it.
"""
import json
import pathlib
import shutil
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

here = pathlib.Path(__file__).parent
TARGETS = {"qwen3-moe": ["q_proj", "gate_proj", "up_proj", "down_proj"],
           "mixtral": ["v_proj", "gate", "w1", "w2", "w3"]}


def model_of(name, folder):
    """The fixture with the names that transformers 4 has for its settings."""
    to = folder / name
    shutil.copytree(here / ".." / "models" / name, to)
    config = json.loads((to / "config.json").read_text())
    config["num_experts"] = config["num_local_experts"]
    if "rope_parameters" in config:
        config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    (to / "config.json").write_text(json.dumps(config))
    return AutoModelForCausalLM.from_pretrained(to, dtype=torch.float32, attn_implementation="eager")


for name, targets in TARGETS.items():
    out = here / f"linears-{name}"
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        model = get_peft_model(model_of(name, pathlib.Path(folder)), LoraConfig(
            task_type="CAUSAL_LM", r=2, lora_alpha=6, use_rslora=True, target_modules=targets,
            init_lora_weights=False))
    model.peft_config["default"].base_model_name_or_path = f"../models/{name}"
    ids = torch.arange(3, 27).reshape(2, 12)
    with torch.no_grad():
        logits = model.eval()(ids).logits
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    save_file({"ids": ids.int(), "logits": logits.contiguous()}, out / "logits.safetensors")
    print(name, len(targets), logits.shape)
