"""The same LoRA fine-tuning in PyTorch + PEFT: storyteller, float32, rank 8, all linears, 8 x 256.

    python peer_lora.py MODEL_DIR STEPS eager|compile

Prints one JSON line: tokens per second (median of the steps after the first three) and the peak
resident memory in bytes. The recipe is that of tests/bench/run.sh.
"""
import json
import resource
import statistics
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def main():
    folder, steps, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.config.use_cache = False
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=targets))
    forward = torch.compile(model) if mode == "compile" else model
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-4, weight_decay=0.01)
    vocabulary = model.config.vocab_size
    seconds = []
    for _ in range(steps):
        batch = torch.randint(0, vocabulary, (8, 257))
        begin = time.perf_counter()
        logits = forward(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, vocabulary).float(), batch[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    median = statistics.median(seconds[3:])
    print(json.dumps({"mode": mode, "tokens_per_second": 8 * 256 / median,
                      "best_tokens_per_second": 8 * 256 / min(seconds[3:]),
                      "peak_rss": peak, "rss_before_training": base}))


main()
