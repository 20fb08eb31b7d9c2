"""What adapters change, as PEFT and torch compute it.

    python changes.py

For adapters of ../lora: writes changes.json: for each adapter and adapted module, in float64, the
Frobenius norm of the change, that of the weight, the singular values (of each expert) of PEFT's
scale B A, and the effective rank, exp of the entropy of the singular values as shares of their sum.
For DoRA the norm is that of the difference between PEFT's merged weight and the weight.
"""
import json
import pathlib

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer, ParamWrapper
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent
ADAPTERS = {"lora-qwen3": "qwen3", "lora-qwen3-rs": "qwen3", "lora-qwen3-dora": "qwen3",
            "lora-qwen3-patterns": "qwen3", "lora-qwen3-pissa": "qwen3", "lora-gemma2": "gemma2",
            "lora-llama-embeddings": "llama", "lora-mixtral": "mixtral"}


def deltas_of(module):
    """The changes of each matrix (n, ., .)."""
    delta = module.get_delta_weight("default").double()
    return delta if delta.ndim == 3 else delta[None]


def values_of(deltas, rank):
    values = torch.linalg.svdvals(deltas)[:, :rank]
    return torch.nn.functional.pad(values, (0, rank - values.shape[1]))


def rank_of(values):
    share = values / values.sum()
    share = share[share > 0]
    return torch.exp(-(share * share.log()).sum()).item()


def weight_of(module):
    if isinstance(module, ParamWrapper):
        return module.get_param().detach().double()
    return module.get_base_layer().weight.detach().double()


@torch.no_grad()
def change_of(module):
    weight, deltas, rank = weight_of(module), deltas_of(module), module.r["default"]
    values = values_of(deltas, rank)
    norm = deltas.norm().item()
    if module.use_dora.get("default"):
        module.merge()
        norm = (module.get_base_layer().weight.double() - weight).norm().item()
        module.unmerge()
    return {"norm": norm, "weight_norm": weight.norm().item(), "rank": rank,
            "singular": values.flatten().tolist(),
            "effective_rank": sum(rank_of(v) for v in values) / len(values)}


def name_of(path, module):
    path = path.removeprefix("base_model.model.")
    return f"{path}.{module.parameter_name}" if isinstance(module, ParamWrapper) else path


def main():
    out = {}
    for adapter, base in ADAPTERS.items():
        model = AutoModelForCausalLM.from_pretrained(GOLDEN / "models" / base, dtype=torch.float64)
        model = PeftModel.from_pretrained(model, GOLDEN / "lora" / adapter / "final",
                                          autocast_adapter_dtype=False).double()
        out[adapter] = {name_of(p, m): change_of(m) for p, m in model.named_modules()
                        if isinstance(m, LoraLayer)}
        print(adapter, {k: (round(c["norm"], 4), round(c["effective_rank"], 3))
                        for k, c in list(out[adapter].items())[:3]}, len(out[adapter]))
    (HERE / "changes.json").write_text(json.dumps(out, indent=1) + "\n")
    print((HERE / "changes.json").stat().st_size)


main()
