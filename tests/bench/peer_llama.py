"""Measures llama.cpp for compare.py, through llama-cpp-python: prints one JSON line.

    python peer_llama.py versions
    python peer_llama.py generate FILE [--prompt N] [--tokens N] [--threads N]

Tokens per second of prefill and of decoding after it, following one run that is not counted. The
time does not depend on the tokens.
"""
import argparse
import json
import time

import llama_cpp


def once(llama, prompt, tokens):
    llama.reset()
    begin = time.perf_counter()
    llama.eval(prompt)
    read = time.perf_counter()
    for i in range(tokens):
        llama.eval([i + 1])
    return len(prompt) / (read - begin), tokens / (time.perf_counter() - read)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=["versions", "generate"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.program == "versions":
        print(json.dumps({"llama-cpp-python": llama_cpp.__version__}))
        return
    llama = llama_cpp.Llama(arguments.file, n_ctx=arguments.prompt + arguments.tokens + 8,
                            n_batch=arguments.prompt, n_ubatch=min(arguments.prompt, 512),
                            n_threads=arguments.threads, n_threads_batch=arguments.threads,
                            verbose=False)
    prompt = [i * 7919 % llama.n_vocab() for i in range(arguments.prompt)]
    once(llama, prompt[:8], 2)
    prefill, decode = once(llama, prompt, arguments.tokens)
    print(json.dumps({"prefill": prefill, "decode": decode}))


main()
