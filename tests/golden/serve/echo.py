"""tests/golden/serve/echo.py -- writes echo.json: what transformers computes for the tokens of some
prompts with the storyteller in float32: the log-probability of each token given those before it,
and the most probable tokens in its place."""
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "examples" / "storyteller"
TEXTS = ["Once upon a time, Lily found a red ball.", "The caf\u00e9 \U0001F98A sang \u2014 twice.", "A"]
TOP = 5

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
cases = []
for text in TEXTS:
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        logprobs = model(ids).logits[0].double().log_softmax(-1)
    places = list(enumerate(ids[0, 1:].tolist()))
    top = [logprobs[i].topk(TOP) for i, _ in places]
    cases.append({
        "text": text,
        "ids": ids[0].tolist(),
        "logprobs": [round(logprobs[i, token].item(), 8) for i, token in places],
        "top": [[round(v, 8) for v in t.values.tolist()] for t in top],
        "top_ids": [t.indices.tolist() for t in top],
    })
(HERE / "echo.json").write_text(json.dumps(cases, ensure_ascii=True, indent=1) + "\n")
