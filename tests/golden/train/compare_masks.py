"""Compares what Weft trains in conversations with TRL, for TRL's copies of real chat templates.

    python3 tests/golden/train/compare_masks.py WEFT

For a template with {% generation %}, the pieces of text that `weft data --jsonl` trains equal TRL's
assistant_only_loss masks. For one that TRL replaces by a template with them (NAME_training.jinja),
each trained piece equals what TRL trains, without the beginning that the generation prompt contains
and white space after the end token. For the others, each trained piece ends with the answer and one
end token, and what precedes the answer is what the template writes between the generation prompt and
the answer. Messages have content as a text, or as TRL converts it where a template requires lists.
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
from trl.data_utils import prepare_multimodal_messages
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
    for sample in samples:  # nothing precedes the first token, so it is never a target
        if sample["ids"][0] not in tokenizer.all_special_ids:
            sample["weights"][0] = sample["weights"][1]
    return [pieces(sample["ids"], sample["weights"], tokenizer) for sample in samples]


def pieces(ids, weights, tokenizer):
    groups = itertools.groupby(zip(ids, weights), key=lambda pair: pair[1] != 0)
    return [[tokenizer.decode([pair[0] for pair in group]), trained] for trained, group in groups]


def marked(folder, messages, template):
    """What the template marks, as TRL trains it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    def render(messages):
        return render_jinja_template([messages], chat_template=template,
                                     return_assistant_tokens_mask=True,
                                     **tokenizer.special_tokens_map)
    try:
        [text], [spans] = render(messages)
    except Exception:
        text = ""
    if messages[-1]["content"].rpartition("</think>")[2].strip() not in text:
        [text], [spans] = render(prepare_multimodal_messages(messages))
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


def as_trained(samples, expected):
    """Whether the trained pieces are those of TRL's template, as the docstring says."""
    trained = [text for sample in samples for text, is_trained in sample if is_trained]
    wanted = [text for text, is_trained in expected[0] if is_trained]
    return len(trained) == len(wanted) and all(
        whole.rstrip().endswith(text.rstrip()) for text, whole in zip(trained, wanted))


# Where Weft trains something else than TRL's replaced template, and why.
OTHERWISE = {
    "deepseekv3": "TRL drops the reasoning that the generation prompt begins",
    "gptoss": "TRL ends all answers but the last with <|end|>, the model ends them with <|return|>",
    "phi3": "the template writes <|endoftext|> after the last answer only; Weft trains each as last",
    "phi3_5": "as phi3",
}

failed = 0
for path in sorted((pathlib.Path(trl.__file__).parent / "chat_templates").glob("*.jinja")):
    with tempfile.TemporaryDirectory() as parent:
        folder = folder_of(path, parent)
        tagged = bool(re.search(r"{%-?\s*generation", path.read_text()))
        training = path.with_name(path.stem + "_training.jinja")
        replaced = not tagged and training.exists()
        template = (training if replaced else path).read_text()
        same = refused = 0
        notes = []
        for row in rows:
            messages = [{"role": role, "content": content} for role, content in row]
            try:
                expected = marked(folder, messages, template)
            except Exception as error:
                expected = str(error)
            got = weft(folder, messages)
            if isinstance(got, str) and isinstance(expected, str):
                refused += 1
            elif not isinstance(got, str) and (
                    got == expected if tagged else fits(got, messages) and (
                        not replaced or as_trained(got, expected))):
                same += 1
            else:
                notes.append((expected if tagged or replaced else None, got))
        excused = bool(notes) and replaced and path.stem in OTHERWISE
        failed += bool(notes) and not excused
        print(f"{path.stem:40} {'marked' if tagged else 'replaced' if replaced else '':8} {same} as TRL, {refused} refused by "
              f"both, {len(notes)} differ{': ' + OTHERWISE[path.stem] if excused else ''}",
              flush=True)
        for note in [] if excused else notes:
            print("   TRL ", note[0], "\n   Weft", note[1])
sys.exit(failed > 0)
