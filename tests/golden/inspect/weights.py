"""Attention weights and log-probabilities of tokens, as transformers computes them.

    python weights.py

For the models of ../models: runs the first LENGTH tokens of each one's reference through
transformers (float32, eager attention) and writes weights.safetensors: NAME/ids (LENGTH),
NAME/N/weights (H, LENGTH, LENGTH) of layer N, and NAME/logprobs (LENGTH - 1): log p of each token
but the first, from float64 logits.
"""
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
NAMES = ["llama", "llama-bias", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4-dense",
         "qwen3-moe", "rope-linear", "rope-yarn", "mixtral", "ministral", "gpt-oss", "minicpm3"]
LENGTH = 9


@torch.no_grad()
def main():
    out = {}
    for name in NAMES:
        model = AutoModelForCausalLM.from_pretrained(
            MODELS / name, dtype=torch.float32, attn_implementation="eager").eval()
        ids = load_file(MODELS / name / "reference.safetensors")["input_ids"][:1, :LENGTH].long()
        result = model(ids, output_attentions=True)
        out[f"{name}/ids"] = ids[0].int()
        for i, weights in enumerate(result.attentions):
            out[f"{name}/{i}/weights"] = weights[0].float().contiguous()
        logprobs = torch.log_softmax(result.logits[0, :-1].double(), -1)
        out[f"{name}/logprobs"] = logprobs.gather(1, ids[0, 1:, None])[:, 0].contiguous()
        print(name, len(result.attentions), tuple(result.attentions[0].shape))
    save_file(out, HERE / "weights.safetensors")
    print((HERE / "weights.safetensors").stat().st_size)


main()
