"""Writes PEFT's adapters of a module that is no language model, and checks those that Weft writes.

    python3 tests/golden/lora/module.py            # writes module/
    python3 tests/golden/lora/module.py FOLDER     # loads FOLDER/NAME in PEFT and compares outputs

The second form reads what WEFT_TEST_ADAPTERS=FOLDER build/tests/test_adapter_module wrote.
"""
import pathlib
import sys
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn

folder = pathlib.Path(__file__).parent / "module"

CONFIGS = {
    "suffixes": dict(r=3, lora_alpha=6, target_modules=["fc1", "embed"],
                     rank_pattern={"layers.1.fc1": 2}, alpha_pattern={"embed": 5}),
    "dora": dict(r=2, lora_alpha=4, target_modules=["fc2", "head"], use_dora=True),
    "saved": dict(r=2, lora_alpha=8, target_modules=["fc1"], modules_to_save=["head"]),
    # layers.1.mix is a convolution, so the suffix "mix" would fit it too.
    "paths": dict(r=2, lora_alpha=3, target_modules=["layers.0.mix"], use_rslora=True),
}


class Block(nn.Module):
    def __init__(self, convolution):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 8)
        self.mix = nn.Conv1d(8, 8, 1) if convolution else nn.Linear(8, 8)
        self.convolution = convolution

    def forward(self, x):
        x = x + self.fc2(nn.functional.gelu(self.fc1(x)))
        if not self.convolution:
            return x + self.mix(x)
        return x + self.mix(x.transpose(1, 2)).transpose(1, 2)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([Block(False), Block(True)])
        self.head = nn.Linear(8, 5)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def base():
    torch.manual_seed(0)
    return Tower()


def write():
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 10, 0]])
    # Weft's convolutions have their channels last: (out, kernel, in).
    tensors = {name: (x.transpose(1, 2) if x.ndim == 3 else x).contiguous()
               for name, x in base().state_dict().items()}
    save_file(tensors, folder / "base.safetensors")
    outputs = {"ids": ids.int(), "base": base()(ids).detach()}
    for name, config in CONFIGS.items():
        torch.manual_seed(1)
        model = get_peft_model(base(), LoraConfig(**config))
        for key, x in model.named_parameters():
            if x.requires_grad:
                x.data += 0.3 * torch.randn_like(x)
        model.eval()
        outputs[name] = model(ids).detach()
        model.save_pretrained(folder / name)
        (folder / name / "README.md").unlink(missing_ok=True)
    save_file(outputs, folder / "outputs.safetensors")


def check(written):
    outputs = load_file(folder / "outputs.safetensors")
    for name in CONFIGS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # missing and unexpected keys are warnings
            model = PeftModel.from_pretrained(base(), written / name)
        model.eval()
        difference = (model(outputs["ids"].long()) - outputs[name]).abs().max().item()
        print(f"{name}: largest difference {difference:.3g}")
        assert difference < 1e-6


if len(sys.argv) > 1:
    check(pathlib.Path(sys.argv[1]))
else:
    write()
