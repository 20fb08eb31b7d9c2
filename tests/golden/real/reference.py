"""Writes reference.json: what other programs make of the real models.

    python tests/golden/real/reference.py FOLDER

FOLDER is that of tools/real_models.sh. Of each GGUF file: the tokens of llama.cpp for texts.py;
from transformers (weights decoded by its GGUF reader, float32, eager attention) the largest logits
after each question and 24 greedy tokens, and the losses of four LoRA updates of PEFT. The start
tokens, of which there is one only for Gemma, are those of llama.cpp. Made with transformers 5.24,
PEFT 0.21, torch 2.13, llama-cpp-python 0.3.36.
"""
import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import Llama
from texts import QUESTIONS, TEXTS

MODELS = {
    "smollm2-135m-instruct-q4_1": ("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", [2]),
    "gemma-3-270m-q4_k_m": ("<bos>{}\n", [1, 106]),
}
TOP, ANSWER = 8, 24


def losses_of(model, rows):
    """Losses of four AdamW updates of the LoRA factors, whose A is given by a formula."""
    model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    trained = [p for p in model.parameters() if p.requires_grad]
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_A" in name:
                n = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape)
                p.copy_(torch.sin(n * 0.37) * 0.03)
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01)
    losses = []
    for _ in range(4):
        out = model(input_ids=rows, labels=rows)
        losses.append(out.loss.item())
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


def reference(folder, name, template, ends):
    path = Path(folder) / f"{name}.gguf"
    llama = Llama(path, size=512)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    out = {"tokens": [llama.tokens(text) for text in TEXTS], "ends": ends, "questions": []}
    for question in QUESTIONS:
        prompt = llama.tokens(template.format(question))
        with torch.no_grad():
            top = model(torch.tensor([prompt])).logits[0, -1].topk(TOP)
            answer = model.generate(torch.tensor([prompt]), max_new_tokens=ANSWER, do_sample=False,
                                    eos_token_id=ends, pad_token_id=0)[0, len(prompt):].tolist()
        out["questions"].append({"prompt": prompt, "top": top.indices.tolist(),
                                 "logits": [round(x, 5) for x in top.values.tolist()],
                                 "answer": [t for t in answer if t not in ends]})
    rows = torch.tensor([(out["questions"][i]["prompt"] * 4)[:32] for i in range(2)])
    out["rows"] = rows.tolist()
    out["losses"] = losses_of(model, rows)
    return out


torch.set_num_threads(1)
(HERE / "reference.json").write_text(json.dumps(
    {"texts": TEXTS, **{name: reference(sys.argv[1], name, *given) for name, given in MODELS.items()}},
    ensure_ascii=False).replace('{"prompt"', '\n{"prompt"').replace(', "rows"', ',\n"rows"') + "\n")
