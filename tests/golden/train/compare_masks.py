"""Compares what Weft trains in conversations with TRL, for TRL's copies of real chat templates.

    python3 tests/golden/train/compare_masks.py WEFT

For a template with {% generation %}, the pieces of text that `weft data --jsonl` trains equal TRL's
assistant_only_loss masks. For the others, each trained piece ends with the answer and one end token,
and what precedes the answer is what the template writes between the generation prompt and the answer.
The tokenizer is the storyteller's with the markers of the template as special tokens. Prints a line
for each template, and the differences.
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import trl
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

root = pathlib.Path(__file__).parents[3]
rows = [
    [("user", "Why is the sky blue?"), ("assistant", "Air scatters blue light.")],
    [("user", "Hi."), ("assistant", "Hello!"), ("user", "Why?"), ("assistant", "No reason.")],
    [("user", "Write <b>"), ("assistant", "<b>bold</b> and **stars**\n\n- one\n- two")],
    [("system", "Be brief."), ("user", "Name a river."), ("assistant", "The Rhine.")],
    [("user", "Think."), ("assistant", "<think>\nI think.\n</think>\n\nDone.")],
    [("assistant", "Welcome!"), ("user", "Thanks."), ("assistant", "Any time.")],
]
MARKER = re.compile(r"<[|｜/]?[A-Za-z_▁|｜][^<>\s'\"{}]*>|\[/?[A-Z_]+\]")


def folder_of(path, parent):
    source = path.read_text()
    folder = pathlib.Path(parent) / path.stem
    folder.mkdir()
    tokenizer = Tokenizer.from_file(str(root / "examples/storyteller/tokenizer.json"))
    markers = sorted(set(MARKER.findall(source)))
    tokenizer.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in markers])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((root / "examples/storyteller/tokenizer_config.json").read_text())
    config["chat_template"] = source
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def weft(folder, messages):
    """The samples, as [text, trained] pieces, or the message of the error."""
    path = folder / "row.jsonl"
    path.write_text(json.dumps({"messages": messages}) + "\n")
    run = subprocess.run([sys.argv[1], "data", path, folder, "--length", "4096", "--jsonl"],
                         capture_output=True, text=True)
    if run.returncode:
        return run.stderr
    samples = [json.loads(line) for line in run.stdout.splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [pieces(sample["ids"], sample["weights"], tokenizer) for sample in samples]


def pieces(ids, weights, tokenizer):
    groups = itertools.groupby(zip(ids, weights), key=lambda pair: pair[1] != 0)
    return [[tokenizer.decode([pair[0] for pair in group]), trained] for trained, group in groups]


def marked(folder, messages):
    """What the template marks, as TRL trains it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    [text], [spans] = render_jinja_template(
        [messages], chat_template=tokenizer.chat_template, return_assistant_tokens_mask=True,
        **tokenizer.special_tokens_map)
    out, at = [], 0
    for begin, end in spans:
        if out and begin == at:
            out[-1][0] += text[begin:end]
        else:
            out += [[text[at:begin], False], [text[begin:end], True]]
        at = end
    return [[piece for piece in out if piece[0]]]


def fits(samples, messages):
    """Whether each answer is a trained piece: what the model generates before it, and one end token."""
    answers = [m["content"].strip() for m in messages if m["role"] == "assistant"]
    trained = [text for sample in samples for text, is_trained in sample if is_trained]
    if len(trained) != len(answers):
        return False
    for answer, text in zip(answers, trained):
        answer = answer.rpartition("</think>")[2].strip()
        before, found, after = text.rpartition(answer)
        if not found or len(MARKER.findall(after)) > 2 or MARKER.sub("", after).strip():
            return False
        if re.sub(r"<[^<>]*>|I think\.|analysis|final|to=\w+|\s|assistant|thought", "", before):
            return False
    return True


failed = 0
for path in sorted((pathlib.Path(trl.__file__).parent / "chat_templates").glob("*.jinja")):
    with tempfile.TemporaryDirectory() as parent:
        folder = folder_of(path, parent)
        tagged = bool(re.search(r"{%-?\s*generation", path.read_text()))
        same = refused = 0
        notes = []
        for row in rows:
            messages = [{"role": role, "content": content} for role, content in row]
            try:
                expected = marked(folder, messages)
            except Exception as error:
                expected = str(error)
            got = weft(folder, messages)
            if isinstance(got, str) and isinstance(expected, str):
                refused += 1
            elif not isinstance(got, str) and (got == expected if tagged else fits(got, messages)):
                same += 1
            else:
                notes.append((expected if tagged else None, got))
        failed += bool(notes)
        print(f"{path.stem:40} {'marked' if tagged else '':7} {same} as TRL, {refused} refused by "
              f"both, {len(notes)} differ", flush=True)
        for note in notes:
            print("   TRL ", note[0], "\n   Weft", note[1])
sys.exit(failed > 0)
