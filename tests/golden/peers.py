"""Other programs that read what `weft` writes: their logits, tokens and answers.

A module for the scripts of this folder. Each function needs only its own program: transformers and
torch, peft, tokenizers, llama-cpp-python (findings of 0.3.36), mlx-lm. Everything is computed in
float32, with eager attention and keys and values in float32 where the program can.
"""
import ctypes
import subprocess
import sys
import warnings
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file


def run(command, *arguments):
    """Runs `weft`; what it printed. Fails with its message."""
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"weft {' '.join(map(str, arguments))}: {done.stderr.strip()[-400:]}")
    return done.stdout


# ---- logits (B, L, V) of token ids (B, L) ----------------------------------------------------------


def weft_logits(command, model, ids, folder, adapter=None):
    at, to = Path(folder) / "ids.safetensors", Path(folder) / "logits.safetensors"
    save_file({"input_ids": numpy.asarray(ids, "int32")}, at)
    run(command, "logits", model, "--ids", at, "--out", to, "--dtype", "float32", "--device", "cpu",
        *(["--adapter", adapter] if adapter else []))
    return load_file(to)["logits"]


def transformers_model(path):
    """The class that config.json names, in which no tensor may be missing or unexpected."""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(path)
    kind = getattr(transformers, (config.architectures or ["AutoModelForCausalLM"])[0])
    model, found = kind.from_pretrained(path, config=config, dtype=torch.float32,
                                        attn_implementation="eager", output_loading_info=True)
    layers = getattr(config, "num_hidden_layers", None)  # later ones predict several tokens
    wrong = sorted(found["missing_keys"]) + sorted(
        key for key in found["unexpected_keys"] if f"model.layers.{layers}." not in key)
    wrong += [str(key) for key in found.get("mismatched_keys", [])]
    if wrong:
        raise RuntimeError(f"{path}: {len(wrong)} tensors missing or unexpected: {wrong[:3]}")
    return model.eval()


def peft_model(path, adapter):
    """The same with an adapter; a warning of PEFT, such as of missing keys, is a failure."""
    from peft import PeftModel
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(transformers_model(path), str(adapter))
    said = [str(w.message) for w in said if "keys" in str(w.message)]
    if said:
        raise RuntimeError(f"{adapter}: PEFT warns: {said[0][:200]}")
    return model.eval()


def torch_logits(model, ids):
    import torch
    with torch.no_grad():
        return model(input_ids=torch.tensor(numpy.asarray(ids)).long()).logits.float().numpy()


def mlx_logits(path, ids, adapter=None):
    """In float32: MLX rounds activations to the dtype of a quantized matrix's scales, which moves
    logits of SmolLM2 in 8 bits by 0.09 of their deviation."""
    import mlx.core as mx
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model
    mx.set_default_device(mx.cpu)
    model, _ = load_model(Path(path))
    if adapter:
        model = load_adapters(model, str(adapter))
        model.eval()
    model.set_dtype(mx.float32)
    return numpy.array(model(mx.array(ids)).astype(mx.float32))


class Llama:
    """A GGUF file in llama.cpp, without repacked weights, which want instructions such as AMX."""

    def __init__(self, path, adapter=None, size=64):
        import llama_cpp
        self.c = c = llama_cpp
        self.quiet = c.llama_log_callback(lambda *_: None)
        c.llama_log_set(self.quiet, ctypes.c_void_p(0))
        options = c.llama_model_default_params()
        options.use_extra_bufts = False
        self.model = c.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.vocab = c.llama_model_get_vocab(self.model)
        self.size = c.llama_vocab_n_tokens(self.vocab)
        self.lora = c.llama_adapter_lora_init(self.model, str(adapter).encode()) if adapter else None
        if adapter and not self.lora:
            raise RuntimeError(f"llama.cpp cannot load {adapter}")
        o = self.options = c.llama_context_default_params()
        o.n_ctx = o.n_batch = o.n_ubatch = size
        o.type_k = o.type_v = c.GGML_TYPE_F32
        o.flash_attn_type = 0
        o.n_threads = o.n_threads_batch = 1

    def context(self):
        context = self.c.llama_init_from_model(self.model, self.options)
        if self.lora:
            adapters = (self.c.llama_adapter_lora_p_ctypes * 1)(self.lora)
            self.c.llama_set_adapters_lora(context, adapters, 1, (ctypes.c_float * 1)(1.0))
        return context

    def read(self, context, tokens, at=0):
        """Logits (n, V) of the tokens, which are at positions from `at` on."""
        n = len(tokens)
        batch = self.c.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(token), at + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        if self.c.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        out = [numpy.ctypeslib.as_array(self.c.llama_get_logits_ith(context, i),
                                        (self.size,)).copy() for i in range(n)]
        self.c.llama_batch_free(batch)
        return numpy.array(out)

    def logits(self, ids):
        out = []
        for row in ids:
            context = self.context()
            out.append(self.read(context, row))
            self.c.llama_free(context)
        return numpy.array(out)

    def tokens(self, text, special=True):
        """Ids of a text; `special`: also of control tokens in it. No start token is added."""
        data = text.encode()
        room = (self.c.llama_token * (len(data) + 8))()
        n = self.c.llama_tokenize(self.vocab, data, len(data), room, len(room), False, special)
        return list(room[:n])

    def answer(self, tokens, n, ends):
        """n greedy tokens after the tokens, or those before an end token."""
        context, out = self.context(), []
        last = self.read(context, tokens)[-1]
        while len(out) < n and int(last.argmax()) not in ends:
            out.append(int(last.argmax()))
            last = self.read(context, out[-1:], len(tokens) + len(out) - 1)[-1]
        self.c.llama_free(context)
        return out


# ---- a table of findings ---------------------------------------------------------------------------


class Table:
    """Lines of `name: what: apart (limit)`; `failed` counts those beyond their limit."""

    def __init__(self):
        self.failed = 0

    def line(self, fine, name, what, text):
        self.failed += not fine
        print(f"{'ok  ' if fine else 'FAIL'} {name:18} {what:40} {text}", flush=True)

    def apart(self, name, what, compute, limit):
        """compute() gives two arrays; their largest difference, in deviations of the second."""
        try:
            a, b = compute()
            off = float(abs(a[..., :b.shape[-1]] - b).max() / b.std())
        except Exception as error:
            self.line(False, name, what, f"{type(error).__name__}: {str(error)[:300]}")
            return
        self.line(off <= limit, name, what, f"{off:.2g} of the deviation (limit {limit:g})")

    def equal(self, name, what, compute):
        """compute() gives two lists; how many of their items are equal."""
        try:
            a, b = compute()
            n = sum(x == y for x, y in zip(a, b))
        except Exception as error:
            self.line(False, name, what, f"{type(error).__name__}: {str(error)[:300]}")
            return
        self.line(n == len(a) == len(b), name, what, f"{n} of {len(b)} equal")

    def refused(self, name, what, text, compute):
        """compute() must fail with a message that contains the text."""
        try:
            compute()
        except RuntimeError as error:
            self.line(text in str(error), name, what, f"refused: {str(error)[-160:]}")
            return
        self.line(False, name, what, "not refused")

    def end(self):
        print(f"{self.failed} failed")
        sys.exit(1 if self.failed else 0)
