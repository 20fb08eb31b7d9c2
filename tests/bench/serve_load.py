"""tests/bench/serve_load.py MODEL [--weft PROGRAM] [--clients N] [--seconds N] [--seed N]
[--adapters NAME=DIR,...] [--weft-options WORDS] [--out FILE] -- many clients of `weft serve` at the
same time. They ask for greedy, drawn and constrained answers, whole and as streams, by all APIs;
they disconnect, stall, and send what is malformed or huge.

Each greedy answer is compared with the one that the server gives alone: equal until two logits are
closer than 1e-4 of their range (`weft logits`), with every first difference in the result. At the
end no sequence, page, thread or connection may be left, and the answers alone must be the same
again. One line of JSON: counts by kind, wrong and lost answers, times to the first token and
between tokens (median, 99%), the server's memory by time. Status 1 if anything is wrong."""
import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORDS = ("river", "stone", "lantern", "winter", "market", "garden", "letter", "window")
TOKENS = 96  # of the longest compared answer
MOST_GAP = 1e-4
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
          "required": ["n", "ok"], "additionalProperties": False}
MALFORMED = [(b, 400) for b in (
    b"", b"{", b"[]", b"nonsense", b"{'prompt': 'a'}", b'{"prompt": "a"} x', b'{"prompt": "a",}',
    b'/* */ {"prompt": "a"}', b'{"prompt": "\xff"}', b'{"prompt": [[]]}', b'{"prompt": 1.5}',
    b'{"prompt": "a", "temperature": "hot"}', b'{"prompt": "a", "n": 100000}',
    b'{"prompt": "a", "logprobs": 99}', b'{"prompt": "a", "max_tokens": NaN}',
    b'{"prompt": [99999999]}', b'{"prompt": "a", "stop": [1]}', b'{"prompt": "a\x00"}',
    b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"messages": 5}')]
NOT_HTTP = (b"\r\n\r\n", b"GET", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"A" * 100000,
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}",
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\nzz\r\n", b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n")


class Wrong(Exception):
    pass


def expect(found, what):
    if not found:
        raise Wrong(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def percentiles(values):
    if len(values) < 2:
        return None
    return {"median": round(1e3 * statistics.median(values), 1), "n": len(values),
            "99%": round(1e3 * statistics.quantiles(values, n=100)[98], 1)}


# ---- prompts ---------------------------------------------------------------------------------

def make_prompts():
    """Short ones, one of some pages, and long ones with the same beginning."""
    rng = random.Random(7)
    long = " ".join(" ".join(rng.choice(WORDS) for _ in range(9)).capitalize() + "."
                    for _ in range(60))
    prompts = ["The %s and the %s" % (a, b) for a, b in zip(WORDS, WORDS[3:] + WORDS[:3])]
    prompts.append("A list: " + long[:1500])
    prompts += [long + " The %s" % w for w in WORDS[:3]]
    return prompts


class Server:
    """The server's process, and the answers that it gives alone."""

    def __init__(self, a):
        self.a, self.port = a, free_port()
        self.adapters = dict(p.split("=", 1) for p in a.adapters.split(",") if p)
        self.models = ["base", *self.adapters]
        words = [a.weft, "serve", a.model, "--name", "base", "--port", str(self.port), "--device",
                 "cpu", *a.weft_options.split()]
        for name, path in self.adapters.items():
            words += ["--adapter", name + "=" + path]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self.log)
        for _ in range(2400):
            try:
                if self.ask("GET", "/health")[0] == 200:
                    break
            except OSError:
                pass
            expect(self.process.poll() is None, "the server has ended: " + " ".join(words))
            time.sleep(0.05)
        self.prompts = make_prompts()
        self.alone = {(m, i): self.ask_alone(m, p) for m in self.models
                      for i, p in enumerate(self.prompts)}
        self.chats = {(m, w): self.chat_alone(m, w) for m in self.models for w in WORDS[:4]}
        self.ranges = {}

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1200)
        c.request(method, path, json.dumps(body) if body is not None else None)
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, text

    def ask_alone(self, model, prompt):
        status, text = self.ask("POST", "/v1/completions", {
            "model": model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0,
            "ignore_eos": True, "logprobs": 5})
        expect(status == 200, "alone: %d %s" % (status, text[:300]))
        choice = json.loads(text)["choices"][0]
        return choice["text"], choice["logprobs"]

    def chat_alone(self, model, word):
        status, text = self.ask("POST", "/v1/chat/completions", chat(model, word, 32))
        expect(status == 200, "a chat alone: %d %s" % (status, text[:300]))
        return json.loads(text)["choices"][0]["message"]["content"]

    def metric(self, name):
        for line in self.ask("GET", "/metrics")[1].decode().splitlines():
            if line.startswith("weft_" + name + " "):
                return float(line.split()[1])
        raise Wrong("no metric " + name)

    def memory(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(x.split()[1]) // 1024 for x in f if x.startswith("VmRSS"))

    def left(self):
        """Threads, and connections that are open."""
        base, sockets = "/proc/%d/" % self.process.pid, 0
        for fd in os.listdir(base + "fd"):
            try:
                sockets += os.readlink(base + "fd/" + fd).startswith("socket:")
            except FileNotFoundError:
                pass  # closed meanwhile
        return len(os.listdir(base + "task")), sockets

    def range_of_logits(self, model, text):
        """Of the logits after a text, by another command."""
        key = (model, text)
        if key not in self.ranges:
            import numpy as np
            from safetensors.numpy import load_file, save_file
            ids = json.loads(self.ask("POST", "/tokenize", {"content": text})[1])["tokens"]
            with tempfile.TemporaryDirectory() as d:
                save_file({"input_ids": np.array([ids], np.int32)}, d + "/ids")
                words = [self.a.weft, "logits", self.a.model, "--device", "cpu", "--ids",
                         d + "/ids", "--out", d + "/logits"]
                if model in self.adapters:
                    words += ["--adapter", self.adapters[model]]
                subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
                last = next(iter(load_file(d + "/logits").values()))[0, -1]
            self.ranges[key] = float(last.max() - last.min())
        return self.ranges[key]

    def close(self):
        self.process.terminate()
        return self.process.wait(60)


def chat(model, word, tokens):
    return {"model": model, "max_tokens": tokens, "temperature": 0,
            "messages": [{"role": "user", "content": "Write a line about a %s." % word}]}


# ---- clients ---------------------------------------------------------------------------------

class Client(threading.Thread):
    def __init__(self, server, number, end):
        super().__init__()
        self.server, self.end = server, end
        self.rng = random.Random(server.a.seed * 1000 + number)
        self.counts, self.bad, self.differences = {}, [], []
        self.first, self.between = [], []

    def run(self):
        kinds = [(getattr(self, n), w) for n, w in WEIGHTS.items()]
        while time.time() < self.end:
            kind = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
            name = kind.__name__
            self.counts[name] = self.counts.get(name, 0) + 1
            try:
                kind()
            except Exception as e:  # also what shows that an answer has another form
                if self.server.process.poll() is not None:
                    self.bad.append("the server has ended")
                    return
                self.bad.append("%s: %s: %s" % (name, type(e).__name__, str(e)[:300]))

    # -- requests

    def open(self, method, path, body):
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=1200)
        c.request(method, path, json.dumps(body) if body is not None else None)
        return c, c.getresponse()

    def json(self, path, body, status=200):
        c, r = self.open("POST" if body is not None else "GET", path, body)
        text = r.read()
        c.close()
        expect(r.status == status, "%s: status %d: %s" % (path, r.status, text[:200]))
        return json.loads(text)

    def events(self, path, body, pause=None):
        """The events of a stream, which must come to its end; `pause` seconds before reading."""
        began, last = time.perf_counter(), None
        c, r = self.open("POST", path, {**body, "stream": True})
        expect(r.status == 200, "%s: status %d" % (path, r.status))
        if pause:
            time.sleep(pause)
        done = False
        while line := r.readline():
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            event = json.loads(line[6:])
            expect("error" not in event and event.get("type") != "error", "an error: %s" % event)
            yield event
            if pause is None and has_text(event):
                now = time.perf_counter()
                (self.first if last is None else self.between).append(now - (last or began))
                last = now
        c.close()
        yield done

    # -- comparing

    def compare(self, model, index, text, tokens, counted):
        """An answer of so many tokens with that of the server alone. Marks have no text, and are
        not in the lists of log-probabilities."""
        alone, logprobs = self.server.alone[model, index]
        pieces = logprobs["tokens"]
        expect(counted == tokens, "%s tokens wanted, got %s" % (tokens, counted))
        marks = TOKENS - len(pieces)  # of which the text has none
        least = len("".join(pieces[:max(0, tokens - marks)])) - 3  # of a character that is not whole
        if text == alone if tokens == TOKENS else alone.startswith(text) and len(text) >= least:
            return
        at = used = 0
        while at < len(pieces) and text[used:].startswith(pieces[at]):
            used += len(pieces[at])
            at += 1
        expect(at < tokens and at < len(pieces), "%d tokens wanted: %r" % (tokens, text[-60:]))
        best = {k: v for k, v in logprobs["top_logprobs"][at].items()
                if k != pieces[at] and text[used:].startswith(k)}
        expect(best, "token %d after %r: %r and alone %r" % (at, alone[:used][-40:],
                                                             text[used:used + 20], pieces[at]))
        gap = logprobs["token_logprobs"][at] - max(best.values())
        self.differences.append((model, index, at, gap, "".join(pieces[:at])))

    def pick(self):
        model = self.rng.choice(self.server.models)
        index, tokens = self.rng.randrange(len(self.server.prompts)), self.rng.randint(2, TOKENS)
        return model, index, tokens, {"model": model, "prompt": self.server.prompts[index],
                                      "max_tokens": tokens, "temperature": 0, "ignore_eos": True}

    def greedy_stream(self, pause=None):
        model, index, tokens, body = self.pick()
        body["stream_options"] = {"include_usage": True}
        events = list(self.events("/v1/completions", body, pause))
        expect(events.pop() is True, "the stream has no end")
        self.compare(model, index, "".join(e["choices"][0]["text"] for e in events if
                                           e["choices"]), tokens,
                     events[-1]["usage"]["completion_tokens"])

    def greedy(self):
        model, index, tokens, body = self.pick()
        answer = self.json("/v1/completions", body)
        self.compare(model, index, answer["choices"][0]["text"], tokens,
                     answer["usage"]["completion_tokens"])

    def choices(self):
        model, index, tokens, body = self.pick()
        answer = self.json("/v1/completions", {**body, "n": 3})
        expect(len(answer["choices"]) == 3, "three choices")
        for c in answer["choices"]:
            self.compare(model, index, c["text"], tokens, answer["usage"]["completion_tokens"] / 3)

    def chat_stream(self):
        model, word = self.rng.choice(self.server.models), self.rng.choice(WORDS[:4])
        events = list(self.events("/v1/chat/completions", chat(model, word, 32)))
        expect(events.pop() is True, "the stream has no end")
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events)
        alone = self.server.chats[model, word]
        if text != alone:
            same = os.path.commonprefix([text, alone])
            self.differences.append((model, "chat: " + word, len(same), None, same))

    # -- other answers

    def drawn_stream(self):
        body = {"prompt": "The " + self.rng.choice(WORDS), "max_tokens": self.rng.randint(1, 60),
                "temperature": 1.2, "top_p": 0.9, "seed": self.rng.randrange(1 << 30)}
        path = self.rng.choice(("/v1/completions", "/v1/chat/completions", "/v1/messages",
                                "/v1/responses"))
        messages = [{"role": "user", "content": body["prompt"]}]
        body = {"/v1/completions": body, "/v1/responses": {
            "input": body["prompt"], "max_output_tokens": body["max_tokens"]}}.get(
                path, {**body, "messages": messages})
        events = list(self.events(path, {**body, "model": self.rng.choice(self.server.models)}))
        done = events.pop()
        last = events[-1].get("type")
        expect(done or last in ("message_stop", "response.completed", "response.incomplete"),
               "the stream has no end: %s" % last)

    def document(self):
        answer = self.json("/v1/chat/completions", {
            **chat(self.rng.choice(self.server.models), "stone", 200), "response_format": {
                "type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}})
        value = json.loads(answer["choices"][0]["message"]["content"])
        expect(set(value) == {"n", "ok"}, "a document: %r" % value)

    def small(self):
        text = " ".join(self.rng.choice(WORDS) for _ in range(40))
        tokens = self.json("/tokenize", {"content": text})["tokens"]
        expect(self.json("/detokenize", {"tokens": tokens})["content"] == text, "detokenized")
        expect(len(self.json("/v1/models", None)["data"]) == len(self.server.models), "models")
        expect(self.json("/v1/messages/count_tokens", {"messages": [
            {"role": "user", "content": text}]})["input_tokens"] > len(tokens) - 3, "tokens")

    def embeddings(self):
        data = self.json("/v1/embeddings", {"input": ["a " + w for w in WORDS[:2]]})["data"]
        expect(len(data) == 2 and len(data[0]["embedding"]) > 100, "embeddings")

    # -- clients that are unkind

    def cancel_stream(self):
        c, r = self.open("POST", "/v1/completions", {
            **self.pick()[3], "stream": True, "max_tokens": 2000, "n": self.rng.randint(1, 2)})
        expect(r.status == 200, "status %d" % r.status)
        for _ in range(self.rng.randrange(30)):
            r.readline()
        r.close()
        c.close()

    def cancel_plain(self):
        body = json.dumps({**self.pick()[3], "max_tokens": 2000})
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=1200)
        c.request("POST", "/v1/completions", body)
        time.sleep(self.rng.random() * 3)
        c.close()

    def stall(self):
        """Reads late, and then everything; the answer is the same."""
        self.greedy_stream(pause=self.rng.random() * 10)

    def stall_and_go(self):
        c, r = self.open("POST", "/v1/completions", {
            **self.pick()[3], "stream": True, "max_tokens": 1500, "logprobs": 20})
        time.sleep(self.rng.random() * 20)
        r.close()
        c.close()

    def raw(self, data, wait):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=1200) as s:
            s.sendall(data)
            return s.recv(65536) if wait else b""

    def malformed(self):
        body, status = self.rng.choice(MALFORMED)
        answer = self.raw(b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                          b"Content-Length: %d\r\n\r\n%s" % (
                              b"chat/completions" if b"messages" in body else b"completions",
                              len(body), body), True)
        expect(answer.split(b" ")[1:2] == [b"%d" % status], "%r: %r" % (body[:60], answer[:300]))

    def not_http(self):
        self.raw(self.rng.choice(NOT_HTTP), False)

    def half(self):
        """A body of which the client sends a part."""
        self.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
                 b'{"prompt": "', False)

    def huge(self):
        kind = self.rng.randrange(4)
        if kind == 0:  # larger than --max-body, as its header says
            answer = self.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                              b"Content-Length: 999999999\r\n\r\n", True)
            expect(b" 413 " in answer[:20], "%r" % answer[:200])
        elif kind == 1:
            self.json("/v1/completions", {"prompt": "word " * 20000}, 400)
        elif kind == 2:  # a field that is ignored
            model, index, tokens, body = self.pick()
            answer = self.json("/v1/completions", {**body, "user": "x" * (10 << 20)})
            self.compare(model, index, answer["choices"][0]["text"], tokens,
                         answer["usage"]["completion_tokens"])
        else:  # small, with too many values
            self.json("/v1/completions", {"prompt": "a", "x": [{}] * 600000}, 413)


WEIGHTS = {"greedy_stream": 30, "greedy": 12, "choices": 2, "chat_stream": 10, "drawn_stream": 10,
           "document": 4, "small": 5, "embeddings": 2, "cancel_stream": 8, "cancel_plain": 5,
           "stall": 3, "stall_and_go": 2, "malformed": 8, "not_http": 3, "half": 2, "huge": 2}


def has_text(event):
    if event.get("type") in ("content_block_delta", "response.output_text.delta"):
        return True
    choice = (event.get("choices") or [{}])[0]
    return bool(choice.get("text") or (choice.get("delta") or {}).get("content"))


# ---- the run ---------------------------------------------------------------------------------

def await_end(server, threads, sockets):
    """Nothing may be left of the clients."""
    names = ("requests_processing", "requests_deferred", "kv_cache_tokens")
    for _ in range(600):
        left = {n: server.metric(n) for n in names}
        now = server.left()
        if not any(left.values()) and now[0] <= threads and now[1] <= sockets:
            return None
        time.sleep(0.1)
    return "left at the end: %s, %d threads (%d), %d sockets (%d)" % (left, now[0], threads,
                                                                      now[1], sockets)


def judge(server, differences):
    """First differences with the gap of their logits as a share of the range."""
    found, wrong = {}, []
    for model, index, at, gap, text in differences:
        key = "%s %s token %s" % (model, index, at)
        if gap is None:  # a chat, whose logits are not known: counted alone
            found.setdefault(key, [0, None])[0] += 1
            continue
        share = gap / server.range_of_logits(model, server.prompts[index] + text)
        found.setdefault(key, [0, share])[0] += 1
        if share > MOST_GAP:
            wrong.append("%s: gap %.3g of the range" % (key, share))
    return found, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--weft", default="build/cli/weft")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--adapters", default="")
    parser.add_argument("--weft-options", default="")
    parser.add_argument("--out")
    a = parser.parse_args()
    server = Server(a)
    threads, sockets = server.left()
    begin, memory = time.time(), []
    clients = [Client(server, i, begin + a.seconds) for i in range(a.clients)]
    for c in clients:
        c.start()
    while any(c.is_alive() for c in clients):
        memory.append([round(time.time() - begin), server.memory(),
                       sum(sum(c.counts.values()) for c in clients)])
        print(*memory[-1], sum(len(c.bad) for c in clients), file=sys.stderr, flush=True)
        if server.process.poll() is not None:
            break
        time.sleep(10)
    for c in clients:
        c.join()
    bad = [b for c in clients for b in c.bad]
    if server.process.poll() is not None:
        bad.append("the server has ended: %d" % server.process.returncode)
        found = {}
    else:
        bad += filter(None, [await_end(server, threads, sockets)])
        found, wrong = judge(server, [d for c in clients for d in c.differences])
        bad += wrong
        bad += ["alone again: %s %d" % k for k, v in server.alone.items()
                if server.ask_alone(k[0], server.prompts[k[1]])[0] != v[0]]
    counts = {n: sum(c.counts.get(n, 0) for c in clients) for n in WEIGHTS}
    result = {"clients": a.clients, "seconds": a.seconds, "requests": sum(counts.values()),
              "counts": counts, "bad": len(bad), "differences": found,
              "first_ms": percentiles([x for c in clients for x in c.first]),
              "between_ms": percentiles([x for c in clients for x in c.between]),
              "memory": [m[:2] for m in memory]}
    if server.process.poll() is None:
        for name in ("tokens_predicted_total", "prompt_tokens_total", "n_rows_max",
                     "requests_set_back_total", "requests_cut_off_total"):
            result[name] = server.metric(name)
        status = server.close()
        if status != 0:
            bad.append("status %d at the end" % status)
    print(json.dumps(result))
    for b in bad[:40]:
        print(b, file=sys.stderr)
    server.log.seek(0)
    print(server.log.read()[-2000:].decode(errors="replace"), file=sys.stderr)
    if a.out:
        with open(a.out, "w") as f:
            json.dump({**result, "bad": bad}, f, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
