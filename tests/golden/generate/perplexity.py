"""Makes perplexity.safetensors: perplexity by chunks as llama.cpp's llama-perplexity computes it, from
logits that transformers computes in float64 for some of the small models of tests/golden/models.

    python tests/golden/generate/perplexity.py

For each model: `NAME/ids` (203,), and `NAME/CONTEXT/BOS` (5,) float64: loss, perplexity,
uncertainty, chunks and tokens counted, for CONTEXT tokens a chunk; BOS is the id that replaces each
chunk's first token, or none.
"""
import math
import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
LENGTH = 203


@torch.no_grad()
def perplexity(model, ids, context, bos):
    losses = []
    chunks = len(ids) // context
    first = context // 2
    for i in range(chunks):
        chunk = ids[i * context:(i + 1) * context].clone()
        if bos is not None:
            chunk[0] = bos
        logits = model(chunk[None]).logits[0].double()
        log_p = torch.log_softmax(logits, -1)
        for j in range(first, context - 1):
            losses.append(-log_p[j, chunk[j + 1]].item())
    n = len(losses)
    mean = math.fsum(losses) / n
    variance = math.fsum(x * x for x in losses) / n - mean * mean
    return [mean, math.exp(mean), math.exp(mean) * math.sqrt(variance / (n - 1)), chunks, n]


def main():
    out = {}
    for seed, name in enumerate(("llama", "gemma3")):
        model = AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float64,
                                                     attn_implementation="eager").eval()
        torch.manual_seed(seed)
        ids = torch.randint(3, model.config.vocab_size, (LENGTH,))
        out[f"{name}/ids"] = ids.to(torch.int32)
        for context in (16, 33, 64):
            for bos in (None, 2):
                values = perplexity(model, ids, context, bos)
                key = f"{name}/{context}/{'none' if bos is None else bos}"
                out[key] = torch.tensor(values, dtype=torch.float64)
                print(key, values)
    save_file(out, HERE / "perplexity.safetensors")


if __name__ == "__main__":
    main()
