"""Greedy decoding in transformers: storyteller, float32, one sequence, with the KV cache.

    python peer_decode.py MODEL_DIR TOKENS

Prints one JSON line: tokens per second, the prompt of 24 ids not counted.
"""
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM


def main():
    folder, tokens = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(2)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = torch.arange(100, 124)[None]
    rates = []
    with torch.inference_mode():
        for _ in range(3):
            out = model(prompt, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            begin = time.perf_counter()
            for _ in range(tokens):
                out = model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1].argmax(-1, keepdim=True)
            rates.append(tokens / (time.perf_counter() - begin))
    print(json.dumps({"tokens_per_second": sorted(rates)[1], "best_tokens_per_second": max(rates)}))


main()
