"""Keys and queries of every layer, after the rotation, as transformers has them.

    python attention.py

For the models of ../models: runs the first LENGTH tokens of each one's reference through
transformers (float32) and writes attention.safetensors: NAME/ids (LENGTH), NAME/N/keys (Hk, S, D)
of layer N from the cache that transformers fills, and NAME/N/queries (H, S, D) as they go into its
attention function. Layers that use another's keys have no entry in the cache and no keys here.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, DynamicCache

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
NAMES = ["llama", "llama-bias", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4-dense",
         "gemma4-moe", "qwen3-moe", "rope-linear", "rope-yarn", "mixtral", "ministral"]
LENGTH = 9

recorded = {}


def listen(model):
    """Puts a recorder around the eager attention of the model's own source file."""
    source = sys.modules[type(model).__module__]
    eager = source.eager_attention_forward

    def record(module, query, key, value, *more, **options):
        recorded[module.layer_idx] = query[0].clone()
        return eager(module, query, key, value, *more, **options)

    if not hasattr(eager, "recorder"):
        record.recorder = True
        source.eager_attention_forward = record


@torch.no_grad()
def main():
    out = {}
    for name in NAMES:
        model = AutoModelForCausalLM.from_pretrained(
            MODELS / name, dtype=torch.float32, attn_implementation="eager").eval()
        listen(model)
        ids = load_file(MODELS / name / "reference.safetensors")["input_ids"][:1, :LENGTH].long()
        cache = DynamicCache()
        recorded.clear()
        model(ids, past_key_values=cache, use_cache=True)
        out[f"{name}/ids"] = ids[0].int()
        for i, layer in enumerate(cache.layers):
            if layer.keys is not None and layer.keys.numel():
                out[f"{name}/{i}/keys"] = layer.keys[0].contiguous()
        for i, query in recorded.items():
            out[f"{name}/{i}/queries"] = query.contiguous()
        print(name, sorted(recorded), [tuple(l.keys.shape) for l in cache.layers])
    save_file(out, HERE / "attention.safetensors")
    print((HERE / "attention.safetensors").stat().st_size)


main()
