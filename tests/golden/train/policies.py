"""Writes policies/completions.jsonl and policies/NAME.safetensors: TRL's training with rewards.

    python3 tests/golden/train/policies.py [NAME...]

20 updates of ../models/llama with the adapter of objectives/start, 4 of each batch of 12 completions
of completions.jsonl, in its order: TRL gets these completions from an override of
_generate_single_turn. They have unequal lengths; some do not end with the EOS token (2), one group
has equal rewards, and one reward is null. Each file has the advantages of the rows and their
log-probabilities less the old ones in every update (0 in padding); losses, gradient norms and TRL's
metrics; and the adapter after the last update. The learning rates are such that at least 5% of the
tokens (GSPO and RLOO: sequences) are clipped on each side. Made with TRL 1.16.0, PEFT 0.21.2,
transformers 5.24.0 and torch 2.13 on the CPU.
"""
import json
import random
import sys
import tempfile

import torch
from datasets import Dataset
from safetensors.torch import save_file

from objectives import VOCABULARY, here, start, tokenizer

import trl.trainer.grpo_trainer
import trl.trainer.rloo_trainer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

out = here / "policies"
UPDATES, BATCHES, ROWS, GROUP, MOST, EOS = 20, 5, 12, 4, 12, 2
METRICS = ["loss", "grad_norm", "kl", "entropy", "clip_ratio/low_mean", "clip_ratio/high_mean",
           "reward", "reward_std", "frac_reward_zero_std"]
RUNS = {
    "grpo": dict(lr=0.005, loss_type="grpo", beta=0.1, temperature=0.8),
    "dapo": dict(lr=0.005, loss_type="dapo", epsilon_high=0.28, mask_truncated_completions=True),
    "dr_grpo": dict(lr=0.005, loss_type="dr_grpo", scale_rewards="none", delta=1.6),
    "bnpo": dict(lr=0.005, loss_type="bnpo", scale_rewards="batch", beta=0.05),
    "gspo": dict(lr=0.002, loss_type="grpo", importance_sampling_level="sequence", epsilon=3e-4,
                 epsilon_high=4e-4, beta=0.02),
    "rloo": dict(lr=0.003, beta=0.05),
}


def ids(n):
    return [random.randrange(3, VOCABULARY) for _ in range(n)]


def completions():
    random.seed(11)
    made = []
    for group in range(BATCHES * ROWS // GROUP):
        prompt = ids(random.randint(2, 8))
        for i in range(GROUP):
            completion = ids(random.randint(2, MOST - 1))
            truncated = (group + i) % 7 == 0
            made.append({"prompt_ids": prompt, "completion_ids": completion if truncated
                         else completion + [EOS], "reward": round(random.uniform(-1, 2), 3),
                         "truncated": truncated})
            if group == 4:
                made[-1]["reward"] = 0.5
    made[6]["reward"] = None
    return made


def main(name):
    options = dict(RUNS[name])
    rows = completions()
    rloo = name == "rloo"
    trainer_type, config_type = (RLOOTrainer, RLOOConfig) if rloo else (GRPOTrainer, GRPOConfig)
    module = trl.trainer.rloo_trainer if rloo else trl.trainer.grpo_trainer
    module.shuffle_sequence_dict = lambda batch: batch
    differences, advantages, calls = [], [], {"sampled": 0, "rewarded": 0}

    def reward(completion_ids, **_):
        at = calls["rewarded"]
        calls["rewarded"] += 1
        batch = rows[at * ROWS:(at + 1) * ROWS]
        assert completion_ids == [row["completion_ids"] for row in batch]
        return [row["reward"] for row in batch]

    class Fixed(trainer_type):
        def _tokenize_prompts(self, prompts):
            return [[int(word) for word in prompt.split()] for prompt in prompts], None, {}

        def _generate_single_turn(self, prompt_ids, *_, **__):
            at = calls["sampled"]
            calls["sampled"] += 1
            batch = rows[at * ROWS:(at + 1) * ROWS]
            assert prompt_ids == [row["prompt_ids"] for row in batch], (prompt_ids, batch)
            found = [row["completion_ids"] for row in batch]
            return found if rloo else (found, None)

        def _get_per_token_logps_and_entropies(self, *rest, **named):
            found = super()._get_per_token_logps_and_entropies(*rest, **named)
            self.latest = found[0]
            return found

        def _compute_loss(self, model, inputs):
            loss = super()._compute_loss(model, inputs)
            mask = inputs["completion_mask"]
            now = self.latest.detach() * mask
            if "old_per_token_logps" in inputs:
                self.old = inputs["old_per_token_logps"] * mask
            elif len(differences) % 4 == 0:  # RLOO keeps only the sums
                self.old = now
            difference = torch.zeros(ROWS, MOST)
            difference[:, :now.shape[1]] = now - self.old
            differences.append(difference)
            if len(differences) % 4 == 1:
                advantages.append(inputs["advantages"])
            return loss

    data = Dataset.from_list([{"prompt": " ".join(map(str, rows[i]["prompt_ids"]))}
                              for i in range(0, len(rows), GROUP)])
    with tempfile.TemporaryDirectory() as folder:
        config = config_type(
            output_dir=folder, per_device_train_batch_size=ROWS, max_steps=UPDATES,
            gradient_accumulation_steps=1, steps_per_generation=1, num_generations=GROUP,
            num_iterations=4, max_completion_length=MOST, shuffle_dataset=False,
            learning_rate=options.pop("lr"), weight_decay=0.01, lr_scheduler_type="constant",
            warmup_steps=0, max_grad_norm=1e9, logging_steps=1, save_strategy="no",
            report_to="none", gradient_checkpointing=False, bf16=False, use_cpu=True, seed=3,
            **options)
        trainer = Fixed(model=start(), reward_funcs=reward, args=config, train_dataset=data,
                        processing_class=tokenizer())
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == len(differences) == UPDATES, (len(logs), len(differences))
    file = {"differences": torch.stack(differences).float(),
            "advantages": torch.stack(advantages).float().reshape(BATCHES, ROWS)}
    for key in METRICS:
        file[key] = torch.tensor([float(entry.get(key, "nan")) for entry in logs],
                                 dtype=torch.float64)
    for key, value in trainer.model.named_parameters():
        if value.requires_grad:
            file[key.replace(".default.", ".").replace("base_model.model.", "")] = value.detach()
    save_file(file, out / f"{name}.safetensors")
    low, high = file["clip_ratio/low_mean"].mean(), file["clip_ratio/high_mean"].mean()
    print(name, f"clipped {low:.3f} {high:.3f}, of updates 2 to 4 of 4 {low * 4 / 3:.3f} "
          f"{high * 4 / 3:.3f}", file["loss"][:5], file["grad_norm"][:4])


if __name__ == "__main__":
    out.mkdir(exist_ok=True)
    with open(out / "completions.jsonl", "w") as file:
        for row in completions():
            print(json.dumps(row), file=file)
    for name in sys.argv[1:] or RUNS:
        main(name)
