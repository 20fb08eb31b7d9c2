"""Writes lora-llama-chat: an adapter of PEFT for ../models/llama, which has neither tokenizer nor
chat template, with both in the adapter's folder as TRL and PEFT's users save them.

    python3 tests/golden/lora/chat_adapter.py

The tokenizer has two tokens more than the base, which begin and end a turn; the end of a turn is
its eos_token, which the base's configuration does not know. The adapter has rows for both and is
trained to answer one question. expected.json: the messages, the prompt's text and ids as
transformers renders them, and the ids and text of the greedy answer that AutoPeftModelForCausalLM
generates until the eos_token, and the loss of that answer with its eos_token.
"""
import json
import pathlib

import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

here = pathlib.Path(__file__).parent
base, out = here / "../models/llama", here / "lora-llama-chat"
TEMPLATE = ("{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}: {{ m.content }}</turn>\n"
            "{% endfor %}{% if add_generation_prompt %}<turn>assistant: {% endif %}")
QUESTION = [{"role": "user", "content": "Who came to the wood?"}]
ANSWER = "A fox and two geese.</turn>"

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(
    ["the user came to the wood and the assistant saw a fox, two geese and three wolves there. "
     "Who was it that answered him when he asked what they were doing in the other forest?"],
    trainers.BpeTrainer(vocab_size=320, special_tokens=["<pad>", "<s>", "</s>"], show_progress=False,
                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
assert tokenizer.get_vocab_size() == 320
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                    pad_token="<pad>")
tokenizer.add_tokens(["<turn>", "</turn>"], special_tokens=True)
tokenizer.eos_token = "</turn>"
tokenizer.chat_template = TEMPLATE

torch.manual_seed(1)
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
model.resize_token_embeddings(len(tokenizer))
rows = [320, 321]
model = get_peft_model(model, LoraConfig(
    task_type="CAUSAL_LM", r=2, lora_alpha=4, target_modules=["q_proj", "v_proj", "down_proj"],
    trainable_token_indices={"embed_tokens": rows, "lm_head": rows}))
model.peft_config["default"].base_model_name_or_path = "../models/llama"
prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_dict=False)
answer = tokenizer(ANSWER, add_special_tokens=False).input_ids
ids = torch.tensor([prompt + answer])
labels = torch.tensor([[-100] * len(prompt) + answer])
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(200):
    optimizer.zero_grad()
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
model.save_pretrained(out, save_embedding_layers=False)
tokenizer.save_pretrained(out)
(out / "README.md").unlink(missing_ok=True)

model = AutoPeftModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(out)
generated = model.generate(input_ids=torch.tensor([prompt]), do_sample=False, max_new_tokens=60,
                           eos_token_id=tokenizer.eos_token_id)[0, len(prompt):].tolist()
with torch.no_grad():
    loss = model(input_ids=ids, labels=labels).loss.item()
text = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
(out / "expected.json").write_text(json.dumps({
    "messages": QUESTION, "prompt": text, "prompt_ids": prompt, "answer_ids": generated,
    "answer": tokenizer.decode(generated, skip_special_tokens=True), "loss": loss}, indent=1) + "\n")
print((out / "expected.json").read_text())
