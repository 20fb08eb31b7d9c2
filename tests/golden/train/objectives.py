"""Writes objectives/NAME.safetensors and objectives/start: TRL's training with preferences.

    python3 tests/golden/train/objectives.py [NAME...]

20 updates of ../models/llama with the adapter of objectives/start, whose B is not zero, so that
TRL's reference is that adapter too. Every file has the batches as TRL collated them: ids (steps,
rows, L), lengths and prompts (steps, rows), in the rows of a batch first the chosen (KTO: the
completions) and then the rejected (the mismatched ones); labels (steps, rows / 2) for KTO; and
losses, grad_norms and TRL's metrics (steps). Made with TRL 1.16.0, PEFT 0.21.2, transformers
5.23.0 and torch 2.13 on the CPU.
"""
import os
import pathlib
import random
import sys
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

here = pathlib.Path(__file__).parent
out = here / "objectives"
STEPS, BATCH, VOCABULARY = 20, 4, 320
METRICS = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"]


def base():
    return AutoModelForCausalLM.from_pretrained(
        here / ".." / "models" / "llama", dtype=torch.float32, attn_implementation="eager")


def start():
    if not (out / "start").exists():
        torch.manual_seed(5)
        model = get_peft_model(base(), LoraConfig(
            task_type="CAUSAL_LM", r=4, lora_alpha=8, init_lora_weights=False,
            target_modules=["q_proj", "v_proj", "down_proj"]))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data *= 0.2
        model.peft_config["default"].base_model_name_or_path = "../../models/llama"
        model.save_pretrained(out / "start")
        (out / "start" / "README.md").unlink(missing_ok=True)
    return PeftModel.from_pretrained(base(), out / "start", is_trainable=True)


def words(n):
    return " ".join(str(random.randrange(3, VOCABULARY)) for _ in range(n))


def rows(paired):
    random.seed(7)
    made = []
    for i in range(STEPS * BATCH):
        row = {"prompt": words(random.randint(2, 8))}
        if paired:
            row["chosen"] = " " + words(random.randint(2, 9))
            row["rejected"] = " " + words(random.randint(2, 9))
        else:
            row["completion"] = " " + words(random.randint(2, 9))
            row["label"] = i % 3 != 0
        made.append(row)
    return Dataset.from_list(made)


def tokenizer():
    inner = Tokenizer(models.WordLevel({str(i): i for i in range(VOCABULARY)}, unk_token="1"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="2", pad_token="0",
                                   bos_token="1", unk_token="1")


def trainer_of(name):
    if name.startswith("dpo"):
        from trl import DPOConfig, DPOTrainer
        return DPOTrainer, DPOConfig, {"loss_type": ["robust"], "label_smoothing": 0.2} if "-" in name else {}
    if name == "kto":
        from trl import KTOConfig, KTOTrainer
        return KTOTrainer, KTOConfig, {"desirable_weight": 1.0, "undesirable_weight": 1.5,
                                       "train_sampling_strategy": "sequential"}
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    if name == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer
        return ORPOTrainer, ORPOConfig, {}
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    return CPOTrainer, CPOConfig, {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": 0.4}


def sequences(inputs):
    """The rows of a batch as (ids, prompt length)."""
    found = []
    if "chosen_input_ids" in inputs:
        for side in ("chosen", "rejected"):
            ids, labels = inputs[side + "_input_ids"], inputs[side + "_labels"]
            mask = inputs[side + "_attention_mask"].bool()
            for i in range(len(ids)):
                found.append((ids[i][mask[i]], int((labels[i][mask[i]] == -100).sum())))
    else:
        for side in ("", "KL_"):
            if side + "input_ids" not in inputs:
                continue
            mask = inputs[side + "attention_mask"].bool()
            for i in range(len(mask)):
                done = inputs[side + "completion_mask"][i][mask[i]]
                found.append((inputs[side + "input_ids"][i][mask[i]], int((done == 0).sum())))
    return found


def main(name):
    trainer_type, config_type, options = trainer_of(name)
    if name != "simpo":
        options["beta"] = 0.3
    else:
        options["beta"] = 2.0
    seen = []

    class Recording(trainer_type):
        def compute_loss(self, model, inputs, *rest, **named):
            rows = sequences(inputs), inputs.get("label")
            loss = super().compute_loss(model, inputs, *rest, **named)
            seen.append((*rows, float(loss.detach())))
            return loss

    with tempfile.TemporaryDirectory() as folder:
        config = config_type(
            output_dir=folder, per_device_train_batch_size=BATCH, num_train_epochs=1,
            learning_rate=0.002, weight_decay=0.01, lr_scheduler_type="constant", warmup_steps=0,
            max_grad_norm=1e9, logging_steps=1, save_strategy="no", report_to="none",
            gradient_checkpointing=False, bf16=False, use_cpu=True, seed=3, **options)
        trainer = Recording(model=start(), args=config, train_dataset=rows(name != "kto"),
                            processing_class=tokenizer())
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == len(seen) == STEPS, (len(logs), len(seen))
    n = len(seen[0][0])
    longest = max(len(ids) for step, _, _ in seen for ids, _ in step)
    ids = torch.zeros(STEPS, n, longest, dtype=torch.int32)
    lengths = torch.zeros(STEPS, n, dtype=torch.int32)
    prompts = torch.zeros(STEPS, n, dtype=torch.int32)
    for s, (step, _, _) in enumerate(seen):
        for i, (row, prompt) in enumerate(step):
            ids[s, i, :len(row)] = row.int()
            lengths[s, i], prompts[s, i] = len(row), prompt
    file = {"ids": ids, "lengths": lengths, "prompts": prompts}
    if name == "kto":
        file["labels"] = torch.stack([torch.as_tensor(label).int() for _, label, _ in seen])
    file["loss"] = torch.tensor([loss for _, _, loss in seen], dtype=torch.float64)
    for key in ["grad_norm"] + METRICS:
        values = [float(entry.get(key, "nan")) for entry in logs]
        file[key] = torch.tensor(values, dtype=torch.float64)
    save_file(file, out / f"{name}.safetensors")
    print(name, file["loss"][:3], file["loss"][-3:], file["grad_norm"][:3])


if __name__ == "__main__":
    for name in sys.argv[1:] or ["dpo", "dpo-smooth", "orpo", "simpo", "kto"]:
        main(name)
