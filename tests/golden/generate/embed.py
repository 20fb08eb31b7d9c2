"""Makes embed.safetensors: embeddings of prompts, pooled from the final hidden states (the final norm
applied) that transformers computes in float64 for some of the small models of tests/golden/models.

    python tests/golden/generate/embed.py

For each model: `NAME/ids` (2, 40), and for the first 40 tokens of row 0 and the first 7 of row 1
`NAME/POOLING` and `NAME/POOLING/normalized` (2, E) float64, POOLING being mean, last and cls.
"""
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
LENGTHS = (40, 7)


def pooled(states):
    return {"mean": states.mean(0), "last": states[-1], "cls": states[0]}


@torch.no_grad()
def main():
    out = {}
    for name in ("llama", "qwen3", "gemma3", "gemma2"):
        model = AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float64,
                                                     attn_implementation="eager").eval()
        ids = load_file(MODELS / name / "reference.safetensors")["input_ids"].long()
        rows = [pooled(model.model(ids[i:i + 1, :n]).last_hidden_state[0])
                for i, n in enumerate(LENGTHS)]
        out[f"{name}/ids"] = ids.to(torch.int32)
        for pooling in rows[0]:
            vectors = torch.stack([row[pooling] for row in rows])
            out[f"{name}/{pooling}"] = vectors
            out[f"{name}/{pooling}/normalized"] = torch.nn.functional.normalize(vectors)
    save_file(out, HERE / "embed.safetensors")


if __name__ == "__main__":
    main()
