"""tests/bench/serve.py MODEL.gguf [--weft PROGRAM] [--llama PROGRAM] [--clients 1,4,16,64]
[--tokens N] [--rounds N] [--threads N] [--weft-options WORDS] [--wait SECONDS] -- tokens a second of
`weft serve`, and of llama-server with the same file, for numbers of clients that each ask for a
greedy text of N tokens at the same time: medians of interleaved rounds, in which one program runs at
a time. Keys and values have 16 bits in both. Before each run it waits up to some seconds until nine
tenths of the machine are idle. One line of JSON, with the least and the largest idle share;
processor_ms is the time of the processor for a token, which other programs do not change much if
threads wait passively (OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0)."""
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


def idle_share(seconds):
    """The share of the processors' time in which they have nothing to do."""
    def read():
        with open("/proc/stat") as f:
            fields = [int(x) for x in f.readline().split()[1:9]]
        return fields[3] + fields[4], sum(fields)

    idle, total = read()
    time.sleep(seconds)
    idle_after, total_after = read()
    return (idle_after - idle) / max(total_after - total, 1)


def await_idle(seconds):
    """Waits until others leave the machine alone, at most some seconds. Returns the idle share."""
    end = time.time() + seconds
    share = idle_share(1)
    while share < 0.9 and time.time() < end:
        share = idle_share(1)
    return share


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
    parser.add_argument("--wait", type=float, default=0)
    a = parser.parse_args()
    programs = ["weft"] + (["llama"] if a.llama else [])
    numbers = [int(n) for n in a.clients.split(",")]
    rates = {(p, n): [] for p in programs for n in numbers}
    idle = []
    for _ in range(a.rounds):
        for n in numbers:
            for p in programs:
                idle.append(await_idle(a.wait))
                rates[p, n].append(run(p, a, n))
                print(p, n, *("%.2f" % x for x in (*rates[p, n][-1], idle[-1])), file=sys.stderr)
    print(json.dumps({"tokens": a.tokens, "threads": a.threads, "rounds": a.rounds,
                      "idle": [round(min(idle), 2), round(max(idle), 2)],
                      "rates": table(rates, programs, numbers, 0, statistics.median),
                      "processor_ms": table(rates, programs, numbers, 1, statistics.median),
                      "all": table(rates, programs, numbers, 0, list)}))


if __name__ == "__main__":
    main()
