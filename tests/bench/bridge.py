#!/usr/bin/env python3
# tests/bench/bridge.py -- the backend "transformers" over checkpoints: the same greedy ids as
# transformers' own generate gives and as Weft's native backend, and how many tokens come behind a
# cancel; and the answer with an adapter that has a tokenizer, a chat template and an eos token of its
# own. By hand:
#   PYTHON tests/bench/bridge.py BUILD FOLDER...
import json
import os
import pathlib
import subprocess
import sys

import torch
import transformers

MOST, CANCEL = 24, 5
PROMPTS = ([1, 5, 9, 3], [2, 40, 7, 7, 11, 30, 4])


def run(build, *arguments):
    environment = dict(os.environ, WEFT_PYTHON=sys.executable)
    words = [os.path.join(build, "tests/generate_ids"), *map(str, arguments)]
    out = subprocess.run(words, capture_output=True, text=True, env=environment)
    if out.returncode != 0:
        sys.exit(out.stderr)
    *ids, reason = out.stdout.split()
    return [int(i) for i in ids], reason


def expected(folder, prompt):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([prompt])
    own = model.generation_config
    eos = own.eos_token_id if isinstance(own.eos_token_id, list) else [own.eos_token_id]
    settings = transformers.GenerationConfig(
        max_new_tokens=MOST, do_sample=False, eos_token_id=own.eos_token_id, pad_token_id=0
    )
    with torch.no_grad():
        out = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings
        )
    return [i for i in out[0, len(prompt):].tolist() if i not in eos]


def answers_with_an_adapter(build):
    """Whether `weft chat --backend transformers` gives PEFT's answer."""
    golden = pathlib.Path(__file__).resolve().parent.parent / "golden"
    adapter = golden / "lora" / "lora-llama-chat"
    known = json.loads((adapter / "expected.json").read_text())
    words = [os.path.join(build, "cli/weft"), "chat", str(golden / "models" / "llama"), "--adapter",
             str(adapter), "-p", known["messages"][0]["content"], "-t", "0"]
    environment = dict(os.environ, WEFT_PYTHON=sys.executable)
    out = subprocess.run([*words, "--backend", "transformers"], capture_output=True, text=True,
                         env=environment)
    print("with an adapter:", out.stdout.strip() or out.stderr)
    return out.stdout.strip() == known["answer"].strip()


def main():
    build, *folders = sys.argv[1:]
    bad = not answers_with_an_adapter(build)
    for folder in folders:
        for prompt in PROMPTS:
            wanted = expected(folder, prompt)
            bridge, _ = run(build, "transformers", folder, MOST, 0, *prompt)
            native, _ = run(build, "native", folder, MOST, 0, *prompt)
            same = bridge == wanted, native == wanted
            bad += not all(same)
            words = ["differs", "equal"]
            print(f"{folder}: {len(wanted)} ids: bridge {words[same[0]]}, native {words[same[1]]}")
        ids, reason = run(build, "transformers", folder, 100000, CANCEL, *PROMPTS[0])
        late = len(ids) - CANCEL
        cancelled = reason == "cancelled"
        bad += cancelled and late > 1
        print(f"{folder}: {reason}, {late} tokens behind the cancel" if cancelled
              else f"{folder}: ended by itself ({reason}) after {len(ids)} tokens")
    sys.exit(bad > 0)


main()
