"""Writes conversations.json: the samples of conversations.jsonl with real tokenizers, by transformers.

    python3 tests/golden/train/conversations.py FOLDER

FOLDER has qwen3/, qwen2_5/ and gemma3/ with tokenizer.json and tokenizer_config.json. Every turn of
the assistant is a sample: the ids of apply_chat_template up to that turn, tokenized in one piece,
cut after the turn's EOS; "prompt" is the number of ids with add_generation_prompt before the turn.
"""
import json
import pathlib
import sys

from transformers import AutoTokenizer

here = pathlib.Path(__file__).parent
roles = {"human": "user", "gpt": "assistant"}
out = {}
for name in ("qwen3", "qwen2_5", "gemma3"):
    tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
    samples = []
    for line in (here / "conversations.jsonl").read_text().splitlines():
        row = json.loads(line)
        messages = row.get("messages") or [
            {"role": roles[m["from"]], "content": m["value"]} for m in row["conversations"]]
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            def ids(count, prompt):
                text = tokenizer.apply_chat_template(messages[:count], tokenize=False,
                                                     add_generation_prompt=prompt)
                return tokenizer(text, add_special_tokens=False)["input_ids"]
            before, whole = ids(i, True), ids(i + 1, False)
            assert whole[:len(before)] == before
            end = whole.index(tokenizer.eos_token_id, len(before)) + 1
            samples.append({"prompt": len(before), "ids": whole[:end]})
    out[name] = samples
(here / "conversations.json").write_text(json.dumps(out) + "\n")
