"""Compares encoders and embedders in GGUF files that `weft convert` writes with llama.cpp.

    python tests/golden/models/encoders_against_llama_cpp.py build/cli/weft [fixture, folder or "classifiers"...]

Hidden states of llama.cpp are compared with transformers', as it is and with gelu in the way of
llama.cpp, which looks its tanh form up in a table in float16 (`Gelu`); the tokens of texts with
those of the tokenizer; pooled embeddings, and those of `weft embed` from the file, with
sentence-transformers'. Of classifiers and rerankers, made from the fixtures, llama.cpp's scores are
compared with transformers' logits, and `weft classify` of the file with its probabilities. Needs llama-cpp-python (findings of 0.3.36), transformers and
sentence-transformers.
"""
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from peers import Table, run

FIXTURES = ["bert", "roberta", "xlm-roberta", "modernbert", "embedder-gemma3-plain",
            "embedder-qwen3"]
TEXTS = ["A king.", "A queen is not a king, and Zürich is no Éclair!", "one two three four",
         "北京 is a city; don't e-mail x@y.org.", "Wherefore art thou 12345 unbelievable?"]
NO_TOKENIZER = {"xlm-roberta": "its normalizer"}  # NFKC, which is not compiled rules


class Gelu(torch.nn.Module):
    """ggml's, of numbers in float16 between -10 and 10."""

    def forward(self, x):
        y = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
        return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, y))


class Encoder:
    def __init__(self, path, pooling):
        import llama_cpp as c
        self.c, self.pooled = c, pooling < 0
        self.quiet = c.llama_log_callback(lambda *_: None)
        c.llama_log_set(self.quiet, ctypes.c_void_p(0))
        o = c.llama_model_default_params()
        o.use_extra_bufts = False
        self.model = c.llama_model_load_from_file(str(path).encode(), o)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        o = c.llama_context_default_params()
        o.n_ctx = o.n_batch = o.n_ubatch = 64
        o.embeddings, o.pooling_type, o.flash_attn_type = True, pooling, 0
        o.type_k = o.type_v = c.GGML_TYPE_F32
        o.n_threads = o.n_threads_batch = 1
        self.context = c.llama_init_from_model(self.model, o)
        self.ranks = c.llama_pooling_type(self.context) == 4
        self.width = (c.llama_model_n_cls_out if self.ranks else c.llama_model_n_embd)(self.model)

    def __call__(self, ids):
        c, n = self.c, len(ids)
        c.llama_memory_clear(c.llama_get_memory(self.context), True)
        batch = c.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = int(token), i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        if c.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        rows = [c.llama_get_embeddings_seq(self.context, 0)] if self.pooled else [
            c.llama_get_embeddings_ith(self.context, i) for i in range(n)]
        out = numpy.array([numpy.ctypeslib.as_array(r, (self.width,)).copy() for r in rows])
        c.llama_batch_free(batch)
        if self.ranks:
            return out[0]
        return out[0] / numpy.linalg.norm(out[0]) if self.pooled else out

    def tokens(self, text):
        data = text.encode()
        room = (self.c.llama_token * (len(data) + 8))()
        vocab = self.c.llama_model_get_vocab(self.model)
        n = self.c.llama_tokenize(vocab, data, len(data), room, len(room), True, False)
        return list(room[:n])


def in_llama(path, ids, pooling):
    """In a process of its own: llama.cpp aborts on what it does not expect."""
    done = subprocess.run([sys.executable, __file__, "--llama", path, json.dumps(ids),
                           str(pooling)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"llama.cpp fails: {done.stderr[-200:]}")
    return [numpy.array(rows) for rows in json.loads(done.stdout)]


def exchange_gelu(model):
    for name, module in list(model.named_modules()):
        for part in ("intermediate_act_fn", "act", "act_fn"):
            if hasattr(module, part) and "SiLU" not in type(getattr(module, part)).__name__:
                setattr(module, part, Gelu())


def hidden_states(source, rows, like_ggml, linears):
    """With the linears after the pooling, which llama.cpp applies to those of all tokens."""
    import transformers
    from transformers import AutoModel
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = AutoModel.from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    if like_ggml:
        exchange_gelu(model)
    with torch.no_grad():
        states = [model(input_ids=torch.tensor([row])).last_hidden_state[0] for row in rows]
        return [torch.nn.Sequential(*linears)(x).numpy() for x in states]


def limit(name):
    """Differences of 1e-7 round to another number in float16 now and then."""
    return 2e-5 if name == "embedder-qwen3" else 7e-4 if name in FIXTURES else 2e-3


def apart(a, b):
    return numpy.concatenate(a), numpy.concatenate(b)


def check(table, weft, name, source, folder):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer
    file = folder / "model.gguf"
    model = SentenceTransformer(str(source), device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(source)
    linears = [m.linear for m in model if type(m).__name__ == "Dense"]
    rows = [tokenizer(text)["input_ids"][:64] for text in TEXTS]
    without = ["--no-tokenizer"] if name in NO_TOKENIZER else []
    if without:
        table.refused(name, "the tokenizer", NO_TOKENIZER[name],
                      lambda: run(weft, "convert", source, file, "--type", "f32"))
    run(weft, "convert", source, file, "--type", "f32", *without)
    table.apart(name, "hidden states", lambda: apart(
        in_llama(file, rows, 0), hidden_states(source, rows, False, linears)), 0.01)
    table.apart(name, "hidden states with llama.cpp's gelu", lambda: apart(
        in_llama(file, rows, 0), hidden_states(source, rows, True, linears)), limit(name))
    expected = model.encode(TEXTS, prompt="", normalize_embeddings=True)
    table.apart(name, "pooled in llama.cpp", lambda: (
        numpy.array(in_llama(file, rows, -1)), expected), 0.01)
    if not without:
        table.equal(name, "tokens", lambda: (
            [Encoder(file, 0).tokens(text) for text in TEXTS], rows))
        table.apart(name, "weft embed", lambda: (numpy.array([
            numpy.fromstring(line, sep=" ") for line in
            run(weft, "embed", file, *TEXTS).splitlines()]), expected), 1e-5)


# ---- classifiers -----------------------------------------------------------------------------------


def classifier(source, folder, labels, **options):
    """transformers' classifier of a fixture with a new head, saved in the folder."""
    import transformers
    from transformers import AutoModelForSequenceClassification as Class
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(3)
    model = Class.from_pretrained(source, num_labels=labels, dtype=torch.float32,
                                  attn_implementation="eager", **options).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name for part in ("classifier", "score", "pooler", "head.dense")):
                parameter.normal_(0, 0.4)
    model.config.pad_token_id = model.config.pad_token_id or 0
    if labels > 1:
        model.config.id2label = {i: f"label {i}" for i in range(labels)}
        model.config.label2id = {f"label {i}": i for i in range(labels)}
    model.save_pretrained(folder)
    return model


def logits(model, rows):
    with torch.no_grad():
        return numpy.array([model(input_ids=torch.tensor([row])).logits[0].numpy() for row in rows])


def softmax(x):
    return torch.tensor(x).softmax(-1).numpy()


def check_classifier(table, weft, name, folder, labels, **options):
    from transformers import AutoTokenizer
    title = " ".join([name, f"{labels} labels" if labels > 1 else "reranker", *options.values()])
    source, file = folder / "classifier", folder / "classifier.gguf"
    model = classifier(HERE / name, source, labels, **options)
    tokenizer = AutoTokenizer.from_pretrained(HERE / name)
    tokenizer.save_pretrained(source)
    rows = [tokenizer(text)["input_ids"][:64] for text in TEXTS]
    without = ["--no-tokenizer"] if name in NO_TOKENIZER else []
    run(weft, "convert", source, file, "--type", "f32", *without)
    shares = softmax if name == "embedder-qwen3" else lambda x: x
    expected = logits(model, rows)
    table.apart(title, "scores", lambda: (
        numpy.array(in_llama(file, rows, -1)), shares(expected)), 0.02)
    if labels > 1 and not without:
        def classified():
            lines = run(weft, "classify", file, *TEXTS, "--json").splitlines()
            found = [{x["label"]: x["probability"] for x in json.loads(line)["labels"]}
                     for line in lines]
            return numpy.array([[row[f"label {i}"] for i in range(labels)] for row in found])
        table.apart(title, "weft classify", lambda: (classified(), softmax(expected)), 1e-5)
    exchange_gelu(model)
    expected = logits(model, rows)
    table.apart(title, "scores with llama.cpp's gelu", lambda: (
        numpy.array(in_llama(file, rows, -1)), shares(expected)), 2e-3)


def check_refused(table, weft, name, folder, why, labels, **options):
    source = folder / "refused"
    classifier(HERE / name, source, labels, **options)
    table.refused(f"{name} {labels} labels", "a GGUF file", why, lambda: run(
        weft, "convert", source, folder / "refused.gguf", "--type", "f32", "--no-tokenizer"))


def check_classifiers(table, weft):
    cases = [(name, n) for name in ("bert", "roberta", "xlm-roberta", "modernbert") for n in (1, 3)]
    for name, labels in [*cases, ("embedder-qwen3", 3)]:
        with tempfile.TemporaryDirectory() as folder:
            check_classifier(table, weft, name, Path(folder), labels)
    for labels in (1, 3):
        with tempfile.TemporaryDirectory() as folder:
            check_classifier(table, weft, "modernbert", Path(folder), labels,
                             classifier_pooling="mean")
    for name, labels, why, options in [
            ("llama", 3, "a classifier", {}), ("qwen2", 1, "a classifier", {}),
            ("embedder-qwen3", 1, "a head with one row", {}),
            ("bert", 3, "several labels", {"problem_type": "multi_label_classification"})]:
        with tempfile.TemporaryDirectory() as folder:
            check_refused(table, weft, name, Path(folder), why, labels, **options)


def main(weft, names):
    table = Table()
    if not names or "classifiers" in names:
        check_classifiers(table, weft)
        names = [name for name in names if name != "classifiers"] or (FIXTURES if not names else [])
    for name in names:
        source = Path(name) if "/" in name else HERE / name
        with tempfile.TemporaryDirectory() as folder:
            check(table, weft, source.name, source, Path(folder))
    table.end()


if sys.argv[1] == "--llama":
    encoder = Encoder(sys.argv[2], int(sys.argv[4]))
    print(json.dumps([encoder(row).tolist() for row in json.loads(sys.argv[3])]))
else:
    main(sys.argv[1], sys.argv[2:])
