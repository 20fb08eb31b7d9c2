"""Writes conversations.json: the samples of conversations.jsonl with real tokenizers, by transformers.

    python3 tests/golden/train/conversations.py FOLDER

The samples of conversations_tools.jsonl, which Gemma's template does not take, are those of
"qwen3_tools" and "qwen2_5_tools", those of conversations_kwargs.jsonl "qwen3_kwargs" and
"llama3_2_kwargs", whose template writes a date. FOLDER has llama3_2/, qwen3/, qwen2_5/ and gemma3/ with tokenizer.json and tokenizer_config.json. A turn of the
assistant is trained from where add_generation_prompt ends to its EOS, with the message's weight (1
without one). Where apply_chat_template of the whole conversation has every turn as it was rendered
last, there is one sample, else one a turn. Samples are tokenized in one piece.

"trl" has what TRL's training templates make of each conversation, with the tokens that its
assistant_only_loss trains: the line break behind a turn too, and with Qwen2.5 that of the generation
prompt. Qwen3's tokenizer here has a template that TRL does not know.
"""
import json
import pathlib
import sys

from transformers import AutoTokenizer
from trl.chat_template_utils import get_training_chat_template

here = pathlib.Path(__file__).parent
roles = {"human": "user", "gpt": "assistant"}


def messages_of(row):
    return row.get("messages") or [
        {"role": roles[m["from"]], "content": m["value"]} for m in row["conversations"]]


def samples_of(tokenizer, row):
    messages = messages_of(row)
    tools = row.get("tools")
    options = {"tools": json.loads(tools) if isinstance(tools, str) else tools}
    kwargs = row.get("chat_template_kwargs", {})
    options.update(json.loads(kwargs) if isinstance(kwargs, str) else kwargs)

    def ids(count, prompt):
        text = tokenizer.apply_chat_template(messages[:count], tokenize=False,
                                             add_generation_prompt=prompt, **options)
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    turns = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, whole = ids(i, True), ids(i + 1, False)
        assert whole[:len(before)] == before
        end = whole.index(tokenizer.eos_token_id, len(before)) + 1
        turns.append((len(before), whole[:end], message.get("weight", 1)))
    last = turns[-1][1]
    if all(last[:len(t[1])] == t[1] for t in turns):
        weights = [0] * len(last)
        for begin, turn, weight in turns:
            weights[begin:len(turn)] = [weight] * (len(turn) - begin)
        return [{"ids": last, "weights": weights}]
    return [{"ids": turn, "weights": [0] * begin + [weight] * (len(turn) - begin)}
            for begin, turn, weight in turns]


def trl_of(tokenizer, row):
    found = tokenizer.apply_chat_template(
        messages_of(row), tools=row.get("tools"), return_dict=True, return_assistant_tokens_mask=True,
        chat_template=get_training_chat_template(tokenizer))
    return {"ids": found["input_ids"], "weights": found["assistant_masks"]}


out = {"trl": {}}
rows, tool_rows, kwargs_rows = ([json.loads(line) for line in (here / name).read_text().splitlines()]
                   for name in ("conversations.jsonl", "conversations_tools.jsonl",
                                "conversations_kwargs.jsonl"))
for name in ("qwen3", "qwen2_5", "gemma3"):
    tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
    out[name] = [sample for row in rows for sample in samples_of(tokenizer, row)]
    if name != "gemma3":
        out[f"{name}_tools"] = [sample for row in tool_rows for sample in samples_of(tokenizer, row)]
    if name != "qwen3":
        out["trl"][name] = [trl_of(tokenizer, row) for row in rows]
for name in ("qwen3", "llama3_2"):
    tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
    out[f"{name}_kwargs"] = [sample for row in kwargs_rows for sample in samples_of(tokenizer, row)]
(here / "conversations.json").write_text(json.dumps(out) + "\n")
