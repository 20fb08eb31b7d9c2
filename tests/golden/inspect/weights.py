"""Attention weights and log-probabilities of tokens, as transformers computes them.

    python weights.py

For the models of ../models: runs the first LENGTH tokens of each one's reference through
transformers (float32, eager attention) and writes weights.safetensors: NAME/ids (LENGTH),
NAME/N/weights (H, LENGTH, LENGTH) of layer N, and NAME/logprobs (LENGTH - 1): log p of each token
but the first, from float64 logits. Encoders and hybrids, whose other layers have no weights, are
without logprobs.
"""
import pathlib
import re

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
NAMES = ["llama", "llama-bias", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4-dense",
         "qwen3-moe", "rope-linear", "rope-yarn", "mixtral", "ministral", "gpt-oss", "minicpm3"]
OTHERS = ["bert", "roberta", "modernbert", "lfm2", "granite4", "falcon-h1", "nemotron-h",
          "qwen3-next"]
LENGTH = 9


def attending(model):
    """The indices of the layers with attention."""
    paths = (re.search(r"layers?\.(\d+)\.", path + ".") for path, module in model.named_modules()
             if "Attention" in type(module).__name__)
    return sorted({int(found[1]) for found in paths if found})


@torch.no_grad()
def main():
    out = {}
    for name in NAMES + OTHERS:
        kind = AutoModel if name in OTHERS else AutoModelForCausalLM
        model = kind.from_pretrained(
            MODELS / name, dtype=torch.float32, attn_implementation="eager").eval()
        ids = load_file(MODELS / name / "reference.safetensors")["input_ids"][:1, :LENGTH].long()
        result = model(ids, output_attentions=True)
        out[f"{name}/ids"] = ids[0].int()
        layers = attending(model)
        assert len(layers) == len(result.attentions)
        for i, weights in zip(layers, result.attentions):
            out[f"{name}/{i}/weights"] = weights[0].float().contiguous()
        print(name, layers, tuple(result.attentions[0].shape))
        if name in OTHERS:
            continue
        logprobs = torch.log_softmax(result.logits[0, :-1].double(), -1)
        out[f"{name}/logprobs"] = logprobs.gather(1, ids[0, 1:, None])[:, 0].contiguous()
    save_file(out, HERE / "weights.safetensors")
    print((HERE / "weights.safetensors").stat().st_size)


main()
