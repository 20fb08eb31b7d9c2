"""Makes narrow.safetensors: models of 16 bits as transformers computes them. Of each small model
beside it: `logits` of transformers in bfloat16 and `wide` in float32, and for models whose experts
are chosen with a bias (e_score_correction_bias) the experts of each router in bfloat16. That bias
is 8 larger than in the files, which changes nothing if it is not rounded to bfloat16.

    python tests/golden/models/narrow.py
"""

import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
NAMES = ("glm4-moe-lite", "glm4-moe-lite-groups", "nemotron-h", "nemotron-h-latent", "minicpm3")
OFFSET = 8


@torch.no_grad()
def computed(name, ids, dtype):
    model = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=dtype,
                                                 attn_implementation="eager",
                                                 experts_implementation="eager").eval()
    routers = []
    for key, module in model.named_modules():
        if hasattr(module, "e_score_correction_bias") and key.endswith("gate"):
            assert module.e_score_correction_bias.dtype == torch.float32, key
            module.e_score_correction_bias += OFFSET
            module.register_forward_hook(lambda m, args, out: routers.append(out[2].sort(-1)[0]))
    return model(ids, use_cache=False).logits.float(), routers


def main():
    out = {}
    for name in NAMES:
        ids = load_file(HERE / name / "reference.safetensors")["input_ids"]
        logits, routers = computed(name, ids.long(), torch.bfloat16)
        wide, expected = computed(name, ids.long(), torch.float32)
        out[f"{name}/ids"], out[f"{name}/logits"], out[f"{name}/wide"] = ids, logits, wide
        if routers:
            out[f"{name}/experts"] = torch.stack(routers).to(torch.int32)
            other = (torch.stack(routers) != torch.stack(expected)).float().mean()
        print(name, "mean", (logits - wide).abs().mean().item(), "most", (logits - wide).abs().max().item(),
              "logits", wide.abs().max().item(), "other experts", other.item() if routers else "")
    save_file(out, HERE / "narrow.safetensors")


if __name__ == "__main__":
    main()
