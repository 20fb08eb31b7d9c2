"""Perplexity by chunks of `weft eval --context` and of llama.cpp's logits, from one GGUF file and text.

    python tests/golden/generate/perplexity_against_llama_cpp.py build/cli/weft MODEL.gguf TEXT [CONTEXT [CHUNKS]]

Fails where they differ by more than 0.1%. llama.cpp keeps keys and values in float16. For models whose
tokenizer adds no begin token. Needs llama-cpp-python.
"""
import json
import subprocess
import sys

import numpy
from llama_cpp import Llama


def llama_cpp(model, text, context, chunks):
    llama = Llama(model, n_ctx=context, n_batch=context, logits_all=True, verbose=False)
    ids = llama.tokenize(open(text, "rb").read(), add_bos=False, special=False)
    losses = []
    for i in range(min(chunks, len(ids) // context)):
        chunk = ids[i * context:(i + 1) * context]
        llama.reset()
        llama.eval(chunk)
        logits = numpy.array(llama.scores[:context], dtype="f8")
        logits -= logits.max(-1, keepdims=True)
        log_p = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
        losses += [-log_p[j, chunk[j + 1]] for j in range(context // 2, context - 1)]
    mean = numpy.mean(losses)
    error = numpy.sqrt((numpy.square(losses).mean() - mean ** 2) / (len(losses) - 1))
    return numpy.exp(mean), numpy.exp(mean) * error, len(losses)


def main(command, model, text, context="512", chunks="20"):
    done = subprocess.run([command, "eval", model, "--data", text, "--context", context, "--chunks",
                           chunks, "--json"], check=True, capture_output=True, text=True)
    ours = json.loads(done.stdout)
    theirs = llama_cpp(model, text, int(context), int(chunks))
    print(f"weft      {ours['perplexity']:.6f} +/- {ours['uncertainty']:.6f} over {ours['targets']}")
    print(f"llama.cpp {theirs[0]:.6f} +/- {theirs[1]:.6f} over {theirs[2]}")
    sys.exit(bool(ours["targets"] != theirs[2] or abs(ours["perplexity"] / theirs[0] - 1) > 1e-3))


main(*sys.argv[1:])
