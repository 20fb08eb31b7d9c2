"""PyTorch beside `bench_shapes vulkan 1b full full16`: full training of Llama 3.2 1B's shape.

    python3 peer_full.py KIND...

Random weights, 4 x 1,024 tokens, clipping, AdamW: tokens/s (the median of steps 3 to 8) and peak
memory. KIND: bfloat16 (weights and states), autocast (float32 weights and states), master (bfloat16
weights with float32 copies and states); with -fused the fused AdamW.
"""
import statistics
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

BATCH, LENGTH, STEPS = 4, 1024, 8
CONFIG = LlamaConfig(
    vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
    num_attention_heads=32, num_key_value_heads=8, head_dim=64, max_position_embeddings=8192,
    rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, attn_implementation="sdpa")


def run(kind):
    kind, _, fused = kind.partition("-")
    torch.manual_seed(7)
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.float32 if kind == "autocast" else torch.bfloat16)
    model = LlamaForCausalLM(CONFIG)
    torch.set_default_dtype(torch.float32)
    model.config.use_cache = False
    trained = list(model.parameters())
    masters = [p.detach().float() for p in trained] if kind == "master" else trained
    optimizer = torch.optim.AdamW(masters, lr=1e-4, fused=True if fused else None)
    torch.cuda.reset_peak_memory_stats()
    times = []
    for step in range(STEPS):
        ids = torch.randint(0, CONFIG.vocab_size, (BATCH, LENGTH))
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=kind == "autocast"):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        if kind == "master":
            for p, m in zip(trained, masters):
                m.grad = p.grad.float()
                p.grad = None
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if kind == "master":
            with torch.no_grad():
                torch._foreach_copy_(trained, masters)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    time_ = statistics.median(times[2:])
    print(f"PyTorch {kind}{' fused' if fused else ''}: {BATCH * LENGTH / time_:.0f} tokens/s, "
          f"{1e3 * time_:.1f} ms, peak {1e-9 * torch.cuda.max_memory_allocated():.1f} GB "
          f"({1e-9 * torch.cuda.max_memory_reserved():.1f} reserved), loss {loss.item():.4f}",
          flush=True)


print(torch.__version__, torch.cuda.get_device_name(), flush=True)
for kind in sys.argv[1:]:
    run(kind)
    torch.cuda.empty_cache()
