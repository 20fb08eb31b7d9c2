"""Writes mlx-qwen3/: an adapter as mlx-lm saves it, and the logits of mlx-lm with it.

    python3 tests/golden/lora/mlx_adapter.py

The last block of ../models/qwen3 has adapters of rank 4 and scale 3 with random B, saved as
mlx_lm.lora does: the trainable parameters, and its arguments as the configuration. Made with
mlx-lm 0.32.2 and mlx 0.32.4 on the CPU.
"""
import json
from pathlib import Path

import mlx.core as mx
import numpy
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model
from safetensors.numpy import load_file, save_file

here = Path(__file__).parent
out = here / "mlx-qwen3"
out.mkdir(exist_ok=True)
mx.set_default_device(mx.cpu)
mx.random.seed(3)
model, _ = load_model(here.parent / "models" / "qwen3")
model.freeze()
parameters = {"rank": 4, "scale": 3.0, "dropout": 0.0,
              "keys": ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"]}
linear_to_lora_layers(model, 1, parameters)
trained = {k: mx.random.normal(v.shape) * 0.05 if k.endswith("lora_b") else v
           for k, v in tree_flatten(model.trainable_parameters())}
model.update(tree_unflatten(list(trained.items())))
mx.save_safetensors(str(out / "adapters.safetensors"), trained)
(out / "adapter_config.json").write_text(json.dumps(
    {"adapter_path": "adapters", "fine_tune_type": "lora", "iters": 1000, "lora_parameters": parameters,
     "mask_prompt": False, "model": "../../models/qwen3", "num_layers": 1, "seed": 0}, indent=4) + "\n")
ids = load_file(here / "lora-llama" / "trajectory.safetensors")["batches"][0][:1].astype("int32")
model.eval()
logits = numpy.array(model(mx.array(ids)).astype(mx.float32))
save_file({"input_ids": ids, "logits": logits}, out / "reference.safetensors")
