"""Every kind of output that `weft` makes from real models, in the programs that read it.

    python tests/golden/real/outputs.py build/cli/weft FOLDER [MODEL...]

FOLDER is that of tools/real_models.sh. Of each GGUF file: the converted folder, an adapter, merged
folders and files, the adapter as GGUF, added tokens, all parameters trained, MLX's format. Compares
tokens, logits (largest difference, in standard deviations) and 20 greedy answers of transformers,
tokenizers, PEFT, llama.cpp and mlx-lm with those of `weft`. Weft and the others read the same file
and compute in float32, so only the order of operations differs. Fails when a line fails. Needs
about 6 GB of memory and minutes.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import (Llama, Table, mlx_logits, peft_model, run, torch_logits, transformers_model,
                   weft_logits)
from texts import QUESTIONS, TEXTS

# The template, the ends, and limits: of llama.cpp's logits on float32 weights (its table of gelu is
# in 16 bits), of mlx-lm's (it rounds Gemma's embedding scale to bfloat16), of a merged file's size
# (SmolLM2's rows of 576 are no whole Q6_K blocks, so its merged matrices are Q8_0).
MODELS = {
    "smollm2-135m-instruct-q4_1": ("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n", [2],
                                   5e-5, 1e-4, 1.45),
    "gemma-3-270m-q4_k_m": ("<bos>{}\n", [1, 106], 0.06, 0.03, 1.3),
}
EXACT, ANSWER = 5e-5, 24
TRAIN = ("--epochs", "1", "--batch-size", "4", "--lr", "2e-3", "--length", "64", "--seed", "1",
         "--dtype", "float32", "--device", "cpu")


class Model:
    """A model in `weft` and the texts that it is asked."""

    def __init__(self, command, table, name, folder, work):
        self.command, self.table, self.name = command, table, name
        self.template, self.ends, self.llama, self.mlx, self.size = MODELS[name]
        self.base, self.work = Path(folder) / f"{name}.gguf", Path(work)
        self.prompts = [self.template.format(q) for q in QUESTIONS]
        first = self.tokens(self.base, self.prompts)
        n = min(map(len, first))
        self.ids = numpy.array([row[:n] for row in first], "int32")

    def weft(self, *arguments):
        return run(self.command, *arguments)

    def tokens(self, model, texts):
        done = subprocess.run([self.command, "tokenize", str(model), "--jsonl"], text=True,
                              input="".join(json.dumps(t) + "\n" for t in texts),
                              capture_output=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def logits(self, model, adapter=None):
        return weft_logits(self.command, model, self.ids, self.work, adapter)

    def answers(self, model, adapter=None):
        """Greedy answers as ids."""
        file = self.work / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in self.prompts))
        out = run(self.command, "generate", model, "--batch", file, "--no-special", "--temperature",
                  "0", "--max-tokens", ANSWER, "--dtype", "float32", "--device", "cpu",
                  "--kv-bits", "32", "--repetition-penalty", "1",
                  *(["--adapter", adapter] if adapter else []))
        rows = sorted(map(json.loads, out.splitlines()), key=lambda row: row["index"])
        return [row["text"] for row in rows]

    def torch_answers(self, model, tokenizer):
        import torch
        out = []
        for prompt in self.prompts:
            ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
            with torch.no_grad():
                all_ids = model.generate(ids, max_new_tokens=ANSWER, do_sample=False,
                                         eos_token_id=self.ends, pad_token_id=0)
            out.append(tokenizer.decode(all_ids[0, ids.shape[1]:], skip_special_tokens=True))
        return out

    def llama_answers(self, path, adapter=None):
        llama = Llama(path, adapter, 256)
        tokens = [llama.answer(llama.tokens(p), ANSWER, self.ends) for p in self.prompts]
        return tokens


def check_folder(m, what, folder, adapter_of_weft=None, source=None):
    """A folder in transformers and tokenizers: tokens, logits, answers."""
    from transformers import AutoTokenizer
    source = source or folder
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = transformers_model(folder)
    except Exception as error:
        m.table.line(False, m.name, what, f"{type(error).__name__}: {str(error)[:300]}")
        return
    m.table.equal(m.name, f"{what}: tokens", lambda: (
        [tokenizer(t, add_special_tokens=False).input_ids for t in TEXTS], m.tokens(m.base, TEXTS)))
    m.table.apart(m.name, f"{what}: logits", lambda: (
        torch_logits(model, m.ids), m.logits(source, adapter_of_weft)), EXACT)
    m.table.equal(m.name, f"{what}: answers", lambda: (
        [t.strip() for t in m.torch_answers(model, tokenizer)],
        [t.strip() for t in m.answers(source, adapter_of_weft)]))


def check_gguf(m, what, path, limit, adapter=None, weft_adapter=None):
    """A file in llama.cpp."""
    m.table.equal(m.name, f"{what}: tokens", lambda: (
        (lambda llama: [llama.tokens(t) for t in TEXTS])(Llama(path)), m.tokens(path, TEXTS)))
    m.table.apart(m.name, f"{what}: logits", lambda: (
        Llama(path, adapter).logits(m.ids), m.logits(path, weft_adapter)), limit)
    texts = m.answers(path, weft_adapter)
    ours = m.tokens(path, texts)
    m.table.equal(m.name, f"{what}: answers", lambda: (m.llama_answers(path, adapter), ours))


def check(m):
    work = m.work
    rows = work / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": m.template.format(q),
                                        "completion": f"The answer number {i} is blue."}) + "\n"
                            for i, q in enumerate(QUESTIONS)))
    m.weft("convert", m.base, work / "converted")
    check_folder(m, "converted", work / "converted")
    m.weft("convert", m.base, work / "f32", "--type", "f32")
    check_folder(m, "converted, f32", work / "f32", source=m.base)
    m.weft("convert", m.base, work / "f32.gguf", "--type", "f32")
    check_gguf(m, "GGUF, f32", work / "f32.gguf", m.llama)

    m.weft("train", m.base, "--data", rows, "--out", work / "run", "--rank", "4", *TRAIN)
    adapter = work / "run" / "last"
    m.table.apart(m.name, "adapter in PEFT: logits", lambda: (
        torch_logits(peft_model(work / "f32", adapter), m.ids), m.logits(m.base, adapter)), EXACT)
    m.weft("convert", adapter, work / "adapter.gguf", "--adapter-format", "gguf", "--base", m.base)
    check_gguf(m, "GGUF adapter", work / "f32.gguf", m.llama, work / "adapter.gguf", adapter)
    m.weft("fuse", m.base, adapter, work / "fused")
    check_folder(m, "merged", work / "fused")
    m.weft("fuse", m.base, adapter, work / "fused-f32", "--type", "f32")
    check_folder(m, "merged, f32", work / "fused-f32", adapter, m.base)
    m.weft("fuse", m.base, adapter, work / "fused.gguf")
    size = (work / "fused.gguf").stat().st_size / m.base.stat().st_size
    m.table.line(size < m.size, m.name, "merged GGUF: size", f"{size:.2f} of the base's")
    # llama.cpp rounds the inputs of products with blocks, so it computes with the decoded matrices.
    m.weft("convert", work / "fused.gguf", work / "fused-f32.gguf", "--type", "f32")
    check_gguf(m, "merged GGUF, decoded", work / "fused-f32.gguf", m.llama)
    m.table.apart(m.name, "merged GGUF: logits as those decoded", lambda: (
        m.logits(work / "fused.gguf"), m.logits(work / "fused-f32.gguf")), EXACT)

    m.weft("train", m.base, "--data", rows, "--out", work / "added", "--rank", "4", "--add-tokens",
           "<blue>,<|red|>", *TRAIN)
    m.weft("fuse", m.base, work / "added" / "last", work / "fused-added")
    check_folder(m, "added tokens", work / "fused-added")
    m.weft("train", work / "converted", "--data", rows, "--out", work / "full", "--full", *TRAIN)
    check_folder(m, "all parameters", work / "full" / "last")
    m.weft("convert", work / "f32", work / "mlx", "--bits", "8")
    m.table.apart(m.name, "MLX's format in mlx-lm: logits", lambda: (
        mlx_logits(work / "mlx", m.ids), m.logits(work / "mlx")), m.mlx)


def main(command, folder, names):
    table = Table()
    for name in names or MODELS:
        work = tempfile.mkdtemp()
        check(Model(command, table, name, folder, work))
        shutil.rmtree(work)
    table.end()


main(sys.argv[1], sys.argv[2], sys.argv[3:])
