"""tests/bench/serve.py MODEL.gguf [--weft PROGRAM] [--llama PROGRAM] [--clients 1,4,16,64]
[--tokens N] [--rounds N] [--threads N] [--weft-options WORDS] -- tokens a second of `weft serve`, and
of llama-server with the same file, for numbers of clients that each ask for a greedy text of N
tokens at the same time: medians of interleaved rounds, in which one program runs at a time. Keys and
values have 16 bits in both. One line of JSON; the load of the machine before each run is a part of
it. processor_ms is the time of the processor for a token, which others do not change much."""
import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

WORDS = ("river", "stone", "lantern", "winter", "market", "garden", "letter", "window")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST" if body else "GET", path, json.dumps(body) if body else None,
              {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, text


def command(program, a, port, clients):
    threads, positions = str(a.threads), a.tokens + 64
    if program == "weft":
        return [a.weft, "serve", a.model, "--port", str(port), "--device", "cpu", "--threads",
                threads, "--parallel", str(clients), "--kv-bits", "16", "--prompt-cache", "0",
                *a.weft_options.split()]
    return [a.llama, "-m", a.model, "--port", str(port), "-t", threads, "-tb", threads, "-np",
            str(clients), "-c", str(positions * clients), "-ctk", "f16", "-ctv", "f16",
            "--cache-ram", "0"]


def start(words, port):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        try:
            if ask(port, "/health")[0] == 200:
                return process
        except OSError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.05)
    process.kill()
    raise SystemExit("does not start: " + " ".join(words))


def measure(port, clients, tokens):
    """Tokens a second of all, from the first request to the last answer."""
    counts = []

    def one(i):
        prompt = "The %s and the %s %d:" % (WORDS[i % 8], WORDS[i // 8 % 8], i)
        status, text = ask(port, "/v1/completions",
                           {"prompt": prompt, "max_tokens": tokens, "temperature": 0,
                            "ignore_eos": True, "cache_prompt": False})
        counts.append(json.loads(text)["usage"]["completion_tokens"] if status == 200 else -1)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(clients)]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.perf_counter() - begin
    if counts != [tokens] * clients:
        raise SystemExit("expected %d tokens for each client, got %s" % (tokens, counts))
    return clients * tokens / seconds


def processor_seconds(process):
    with open("/proc/%d/stat" % process.pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(program, a, clients):
    """Tokens a second, and milliseconds of the processor for a token."""
    port = free_port()
    process = start(command(program, a, port, clients), port)
    try:
        measure(port, clients, 8)
        before = processor_seconds(process)
        rate = measure(port, clients, a.tokens)
        return rate, 1e3 * (processor_seconds(process) - before) / (clients * a.tokens)
    finally:
        process.terminate()
        process.wait()


def table(rates, programs, numbers, which, of):
    return {p: {n: of([round(x[which], 2) for x in rates[p, n]]) for n in numbers}
            for p in programs}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--weft", default="build/cli/weft")
    parser.add_argument("--llama")
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weft-options", default="")
    a = parser.parse_args()
    programs = ["weft"] + (["llama"] if a.llama else [])
    numbers = [int(n) for n in a.clients.split(",")]
    rates = {(p, n): [] for p in programs for n in numbers}
    loads = []
    for _ in range(a.rounds):
        for n in numbers:
            for p in programs:
                loads.append(os.getloadavg()[0])
                rates[p, n].append(run(p, a, n))
                print(p, n, *("%.2f" % x for x in rates[p, n][-1]), file=sys.stderr)
    print(json.dumps({"tokens": a.tokens, "threads": a.threads, "rounds": a.rounds,
                      "load": [round(min(loads), 2), round(max(loads), 2)],
                      "rates": table(rates, programs, numbers, 0, statistics.median),
                      "processor_ms": table(rates, programs, numbers, 1, statistics.median),
                      "all": table(rates, programs, numbers, 0, list)}))


if __name__ == "__main__":
    main()
