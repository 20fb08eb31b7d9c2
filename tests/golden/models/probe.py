"""Makes probe.safetensors: of two of the small models beside it, what stands behind each layer (the
root of the mean square of every token's residual stream) and, for mixtral, the experts that its
routers choose with their weights; by transformers, in float64.

    python tests/golden/models/probe.py
"""

import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent


def layer_outputs(model, ids):
    """The residual stream behind each layer, and each router's (weights, experts)."""
    streams, routers = [], []

    def keep_stream(module, args, output):
        streams.append(output[0] if isinstance(output, tuple) else output)

    def keep_router(module, args, output):
        logits = torch.nn.functional.linear(args[0].reshape(-1, args[0].shape[-1]), module.weight)
        top, experts = torch.softmax(logits, -1).topk(model.config.num_experts_per_tok, -1)
        routers.append((top / top.sum(-1, keepdim=True), experts))

    for layer in model.model.layers:
        layer.register_forward_hook(keep_stream)
        if hasattr(layer.mlp, "gate") and hasattr(layer.mlp, "experts"):
            layer.mlp.gate.register_forward_hook(keep_router)
    with torch.no_grad():
        model(ids)
    return streams, routers


def main():
    out = {}
    for name in ("llama", "mixtral"):
        model = AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float64,
                                                     experts_implementation="eager")
        ids = load_file(HERE / name / "reference.safetensors")["input_ids"][:1].long()
        streams, routers = layer_outputs(model, ids)
        out[f"{name}/ids"] = ids[0].to(torch.int32)
        out[f"{name}/rms"] = torch.stack([x[0].square().mean(-1).sqrt() for x in streams])
        if routers:
            out[f"{name}/weights"] = torch.stack([w for w, _ in routers]).to(torch.float64)
            out[f"{name}/experts"] = torch.stack([e for _, e in routers]).to(torch.int32)
    save_file(out, HERE / "probe.safetensors")


if __name__ == "__main__":
    main()
