"""Writes runs of PEFT that train a sequence classifier (TaskType.SEQ_CLS), decoders and encoders,
and runs of transformers that train all parameters of encoders.

    python3 tests/golden/lora/classifier.py [NAME...]

Each classify-NAME/ gets initial/ and final/, the adapter as PEFT saved it with config.json beside it,
and trajectory.safetensors: int32 `ids` (steps, 4, 24) with 0 behind a row's `lengths` (steps, 4),
int32 `labels` (steps, 4), float64 `losses` and `grad_norms` (steps) before each update, and float32
`final_logits` (4, 3) of the first batch after the last one. Each labels-NAME/ gets initial/, the whole
model as transformers saved it, and the same trajectory. Encoders have no dropout.
"""
import json
import pathlib
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification

here = pathlib.Path(__file__).parent
STEPS, LR, DECAY = 20, 0.005, 0.01
LABELS = ["bad", "fair", "good"]


NONE = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
MODERN = dict(attention_dropout=0.0, mlp_dropout=0.0, embedding_dropout=0.0)


def main(base, full=False, targets=("q_proj", "v_proj"), lr=LR, **more):
    torch.manual_seed(3)
    path = here / ".." / "models" / base
    encoder = "bert" in base
    plain = AutoModelForSequenceClassification.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", num_labels=3,
        id2label=dict(enumerate(LABELS)), label2id={x: i for i, x in enumerate(LABELS)},
        **(more | dict(classifier_dropout=0.0) if encoder else dict(pad_token_id=0)))
    for key, parameter in plain.named_parameters():
        if key.startswith(("score.", "classifier.")):
            torch.nn.init.normal_(parameter, std=0.3)
    model = plain
    if not full:
        model = get_peft_model(plain, LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8,
                                                 target_modules=list(targets)))
        model.peft_config["default"].base_model_name_or_path = f"../../models/{base}"
    model.train()
    for key, parameter in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(parameter, std=0.05)
    out = here / f"{'labels' if full else 'classify'}-{base}"

    def save(name):
        if full and name == "final":
            return
        model.save_pretrained(out / name)
        (out / name / "README.md").unlink(missing_ok=True)
        config = json.loads(plain.config.to_json_string())
        (out / name / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    save("initial")
    lengths = torch.randint(3, 25, (STEPS, 4))
    ids = torch.randint(1, min(320, plain.config.vocab_size), (STEPS, 4, 24))
    ids = ids.clamp(min=5) if encoder else ids
    ids = torch.where(torch.arange(24) < lengths[:, :, None], ids, plain.config.pad_token_id)
    labels = ids.sum(-1) % 3
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=DECAY)
    losses, norms = [], []
    for x, n, y in zip(ids, lengths, labels):
        optimizer.zero_grad()
        mask = (torch.arange(24) < n[:, None]).long()
        loss = model(input_ids=x, attention_mask=mask, labels=y).loss
        loss.backward()
        norms.append(torch.linalg.vector_norm(torch.stack(
            [torch.linalg.vector_norm(p.grad.double()) for p in trained if p.grad is not None])).item())
        losses.append(loss.item())
        optimizer.step()
    model.eval()
    with torch.no_grad():
        mask = (torch.arange(24) < lengths[0][:, None]).long()
        final = model(input_ids=ids[0], attention_mask=mask).logits
    save("final")
    save_file({"ids": ids.int(), "lengths": lengths.int(), "labels": labels.int(),
               "losses": torch.tensor(losses, dtype=torch.float64),
               "grad_norms": torch.tensor(norms, dtype=torch.float64),
               "final_logits": final.contiguous()}, out / "trajectory.safetensors")
    print(base, [round(x, 4) for x in losses])


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for base in ("llama", "qwen2", "gemma2"):
        if not wanted or base in wanted:
            main(base)
    if not wanted or "minicpm3-published" in wanted:
        main("minicpm3-published", targets=["q_b_proj", "kv_b_proj"])
    for base, more in (("bert", NONE), ("roberta", NONE), ("xlm-roberta", NONE),
                       ("modernbert-old", MODERN)):
        if not wanted or base in wanted:
            main(base, targets=["Wqkv"] if "modern" in base else ["query", "value"], **more)
    for base, more in (("bert", NONE), ("roberta", NONE),
                       ("modernbert", MODERN | dict(classifier_pooling="mean"))):
        if not wanted or base in wanted:
            main(base, full=True, lr=0.001, **more)
