"""Makes tasks_choices.jsonl, tasks_exact.jsonl and tasks.json: what transformers computes in float64
for the tasks of weft eval with the storyteller.

    python tests/golden/generate/tasks.py

choices: the log-probability of each choice and acc, acc_norm and their standard errors by the
definitions of lm-evaluation-harness 0.4 (lm_eval/api/model.py _encode_pair, api/task.py
MultipleChoiceTask, api/metrics.py mean_stderr), which are written out here: prompt and choice are
encoded together, the choice's tokens are those behind as many as the prompt has by itself, white
space at the prompt's end moves to the choice, acc_norm divides by the characters of the choice.
exact: greedy answers of at most 12 tokens, cut at a newline.
"""
import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parents[2] / "examples" / "storyteller"
CHOICES = [
    ("Once upon a time there was a", ["king", "telephone", "witch"], 0),
    ("The wolf ate the ", ["sheep", "castle of glass"], 0),
    ("She opened the door and", [" saw an old woman", " naïve – café", " went"], 2),
    ("\"Good morning,\" said the fox.\n\"Good morning,\" said the", ["bear", "b", "rabbit"], 2),
    ("He was so hungry that he", ["ate all the bread", "slept"], "ate all the bread"),
    ("The princess", ["wept", "wept bitterly", "and the frog went into the garden"], 1),
    ("They lived happily ever", ["after", "before"], 0),
]
EXACT = [
    ("They lived happily ever", "after"),
    ("Once upon a time there was a", ["king", "poor man"]),
    ("The wolf said to the seven little", "goats"),
]


def logprob(model, tokenizer, prompt, choice):
    text = prompt if prompt[-1:].isspace() or choice[:1].isspace() else prompt + " "
    context = prompt.rstrip()
    n = len(tokenizer(context)["input_ids"])
    ids = tokenizer(text + choice)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    p = torch.log_softmax(logits, -1)
    return math.fsum(p[i - 1, ids[i]].item() for i in range(n, len(ids)))


def mean_stderr(values):
    n, mean = len(values), sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1)) / math.sqrt(n)


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(MODEL / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64).eval()
    rows, scores = [], {"acc": [], "acc_norm": []}
    with open(HERE / "tasks_choices.jsonl", "w", encoding="utf-8") as f:
        for prompt, choices, answer in CHOICES:
            f.write(json.dumps({"prompt": prompt, "choices": choices, "answer": answer}) + "\n")
            right = answer if isinstance(answer, int) else choices.index(answer)
            sums = [logprob(model, tokenizer, prompt, c) for c in choices]
            norms = [s / len(c) for s, c in zip(sums, choices)]
            scores["acc"].append(float(sums.index(max(sums)) == right))
            scores["acc_norm"].append(float(norms.index(max(norms)) == right))
            rows.append(sums)
    out = {"logprobs": rows}
    for name, values in scores.items():
        out[name] = sum(values) / len(values)
        out[name + "_stderr"] = mean_stderr(values)
    generated = []
    with open(HERE / "tasks_exact.jsonl", "w", encoding="utf-8") as f:
        for prompt, answer in EXACT:
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
            made = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1]:]
            text = tokenizer.decode(made, skip_special_tokens=True)
            generated.append(text.split("\n")[0])
            f.write(json.dumps({"prompt": prompt, "answer": answer}) + "\n")
    out["generated"] = generated
    (HERE / "tasks.json").write_text(json.dumps(out, indent=1) + "\n")


main()
