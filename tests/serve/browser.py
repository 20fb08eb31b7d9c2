"""tests/serve/browser.py CHROMIUM URL [FOLDER] -- drives the page of `weft serve` in headless Chromium
by its debugging pipe: chats, stops, regenerates, compares, and checks that text of a model is never
markup. The server's key is in WEFT_API_KEY. Writes screenshots to FOLDER."""
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, program, profile):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def pipes():
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--remote-debugging-pipe", "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.to, self.source, self.rest, self.n = to_write, from_read, b"", 0
        self.session, self.problems = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            self.rest += os.read(self.source, 1 << 20)
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.n += 1
        call = {"id": self.n, "method": method, "params": params}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.to, json.dumps(call).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.n:
                if "error" in m:
                    sys.exit("%s: %s" % (method, m["error"]))
                return m["result"]
            if m["method"] == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(m["params"]["exceptionDetails"])[:500])
            if m["method"] == "Log.entryAdded" and m["params"]["entry"]["level"] == "error" \
                    and "401" not in m["params"]["entry"]["text"]:
                self.problems.append(m["params"]["entry"]["text"])

    def run(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            sys.exit("%s: %s" % (text, json.dumps(r["exceptionDetails"])[:800]))
        return r["result"].get("value")

    def wait(self, text, seconds=120):
        end = time.time() + seconds
        while not self.run(text):
            if time.time() > end:
                sys.exit("waited for: " + text)
            time.sleep(0.05)

    def size(self, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def shot(self, folder, name):
        if folder:
            time.sleep(0.3)
            data = self.call("Page.captureScreenshot", format="png")["data"]
            with open(os.path.join(folder, name + ".png"), "wb") as f:
                f.write(base64.b64decode(data))

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code)

    def ask(self, text):
        self.run("document.getElementById('input').focus()")
        self.call("Input.insertText", text=text)
        self.key("Enter", 13)

    def done(self):
        self.wait("running.length === 0 && turns.length > 0")


def check(found, what):
    if not found:
        sys.exit("failed: " + what)


HOSTILE = ("<img src=x onerror=\"window.bad = 1\"> <script>window.bad = 1</script>\n\n"
           "# <b>title</b>\n\n- [x](javascript:alert(1)) `<i>`\n\n"
           "```html\n</code></pre><script>window.bad = 1</script>\n```\nend **<u>**")


def safe_text(b):
    b.run("window.probe = document.createElement('div'); document.body.append(probe);"
          "putMarkdown(probe, %s)" % json.dumps(HOSTILE))
    check(b.run("probe.querySelectorAll('img, script, b, i, u, a').length") == 0,
          "text of a model made elements")
    check("onerror" in b.run("probe.textContent"), "text of a model is shown")
    check(b.run("probe.querySelector('pre code').textContent")
          == "</code></pre><script>window.bad = 1</script>", "code is shown as it is")
    check(b.run("window.bad") is None, "text of a model ran")
    b.run("probe.remove()")
    # No text may take long, or an endless loop.
    b.run("for (const t of ['`', '**', '#', '1.', '- ', '```', '*a', '~~~', '* ', '#######x'])"
          " for (const n of [1, 2, 3000]) putMarkdown(document.createElement('div'), t.repeat(n));")


def labels(b):
    bare = b.run("[...document.querySelectorAll('input, select, textarea')].filter("
                 "e => !e.labels || e.labels.length === 0 || !e.labels[0].textContent.trim())"
                 ".map(e => e.id).join()")
    check(bare == "", "fields without a label: %s" % bare)
    bare = b.run("[...document.querySelectorAll('button')].filter("
                 "e => !e.textContent.trim()).length")
    check(bare == 0, "buttons without a text")


def no_scroll_sideways(b):
    check(b.run("document.documentElement.scrollWidth") <= 390, "the page scrolls sideways")


def jobs(b, folder):
    """Trains, and shows the job with its curve; its model can then be chosen."""
    b.run("""(async () => {
        const data = new FormData(), h = headers();
        delete h["Content-Type"];
        data.append("purpose", "fine-tune");
        data.append("file", new Blob(['{"text": "All the birds of the town sing."}\\n']), "a.jsonl");
        const file = await (await fetch("/v1/files",
                                        {method: "POST", headers: h, body: data})).json();
        await fetch("/v1/fine_tuning/jobs", {method: "POST", headers: headers(),
            body: JSON.stringify({model: "storyteller", training_file: file.id, suffix: "birds",
                                  weft: {steps: 12, learning_rate: 0.01}})});
    })()""")
    before = b.run("at('model').options.length")
    b.run("at('show-jobs').click()")
    b.wait("at('list').textContent.includes('succeeded')")
    check("update 12 of 12" in b.run("at('list').textContent"), "the job's updates")
    check(b.run("at('list').querySelector('polyline').getAttribute('points').split(' ').length")
          == 12, "the curve of its loss")
    b.wait("at('model').options.length === %d" % (before + 1))
    for width, height, dark in ((1280, 800, False), (390, 844, True)):
        b.size(width, height, dark)
        b.shot(folder, "jobs-%d" % width)
        if width == 390:
            no_scroll_sideways(b)
    # The server fails twice: the page continues. Then nothing is requested, since the job has ended.
    b.run("""window.asked = [], window.plain = window.fetch, window.fail = 2;
        window.fetch = (path, ...rest) => {
            asked.push([path, performance.now()]);
            return path.includes("fine_tuning") && fail-- > 0 ? Promise.reject(new Error("gone"))
                                                              : plain(path, ...rest);
        };
        loadJobs()""")
    b.wait("at('list').textContent === 'gone'")
    b.wait("at('list').textContent.includes('succeeded')")
    times = [t for path, t in b.run("asked") if "jobs" in path]
    check(len(times) == 3 and times[1] - times[0] > 1500 and times[2] - times[1] > 3500,
          "longer and longer waits: %s" % b.run("asked"))
    time.sleep(3)
    check(len(b.run("asked.filter(([path]) => path.includes('jobs'))")) == 3,
          "requests for a job that has ended: %s" % b.run("asked"))
    b.run("window.fetch = plain; 0")
    b.run("at('show-jobs').click()")


def models_come_late(b):
    """The server fails at first, as while the model is loaded: the page asks again."""
    b.run("""window.plain = window.fetch, window.fail = 2;
        window.fetch = (path, ...rest) => path === "/v1/models" && fail-- > 0
            ? Promise.resolve(new Response('{"error": {"message": "is being loaded"}}',
                                           {status: 503})) : plain(path, ...rest);
        at("model").replaceChildren();
        at("show-jobs").hidden = true;
        loadModels()""")
    check(b.run("at('empty').textContent") == "is being loaded", "why there are no models yet")
    b.wait("at('model').options.length > 0")
    check(b.run("fail < 0 && at('empty').textContent.startsWith('Ask something')"), "the hint")
    b.run("window.fetch = plain; 0")


def hold_streams(b):
    """From now on a stream stops after its first text until pass_on(), however fast the answer is."""
    b.run("""window.plain = window.fetch, window.gate = new Promise((go) => { window.pass_on = go; });
        window.fetch = async (path, options) => {
            const answer = await plain(path, options), to = new TextEncoder();
            if (!path.includes("completions")) return answer;
            const stopped = new Promise((_, no) => { options.signal.onabort = no; });
            const events = new TransformStream({async transform(text, out) {
                for (const event of text.split(/(?<=\\n\\n)/)) {
                    out.enqueue(to.encode(event));
                    if (/"content": *"[^"]/.test(event)) await Promise.race([gate, stopped]);
                }
            }});
            return new Response(answer.body.pipeThrough(new TextDecoderStream())
                                .pipeThrough(events), {status: answer.status});
        }; 0""")


def pass_on(b):
    b.run("pass_on(); window.fetch = plain; 0")
    b.done()


def play(b, url, folder):
    b.size(1280, 800, False)
    b.call("Page.navigate", url=url)
    if os.environ.get("WEFT_API_KEY"):
        b.wait("typeof at === 'function' && !at('settings').hidden") # the key is asked for
        check("key" in b.run("at('empty').textContent"), "why there are no models")
        b.run("at('key').value = %s; at('key').dispatchEvent(new Event('change'));"
              "openSettings(false)" % json.dumps(os.environ["WEFT_API_KEY"]))
    b.wait("typeof loadModels === 'function' && document.getElementById('model').options.length")
    models_come_late(b)
    b.shot(folder, "desktop-empty")
    labels(b)
    safe_text(b)
    b.run("at('max_tokens').value = 60; at('temperature').value = 0")
    hold_streams(b)
    b.ask("Write a short function in Python, and explain it.")
    b.wait("turns.length === 1 && turns[0].answers[0].text.length > 0")
    check(b.run("running.length === 1 && at('send').hidden && !at('stop').hidden"),
          "stop is shown while it answers")
    pass_on(b)
    first = b.run("turns[0].answers[0].text")
    check(first and not b.run("turns[0].answers[0].problem"), "an answer")
    check(re.search(r"\d+ tokens", b.run("turns[0].answers[0].note")), "its number of tokens")
    b.run("document.querySelector('.again').click()")
    b.done()
    check(b.run("turns.length") == 1, "regenerating replaces the turn")
    check(b.run("turns[0].answers[0].text") == first, "greedy answers are the same")
    b.shot(folder, "desktop-light")
    b.size(1280, 800, True)
    b.shot(folder, "desktop-dark")
    # Stop by the keyboard.
    b.run("at('max_tokens').value = 4000;"
          "requestFor = ((f) => (m, i) => ({...f(m, i), ignore_eos: true}))(requestFor)")
    hold_streams(b)
    b.ask("Count to one thousand.")
    b.wait("turns.length === 2 && turns[1].answers[0].text.length > 0")
    b.key("Escape", 27)
    pass_on(b)
    check("stopped" in b.run("turns[1].answers[0].note"), "Escape stops")
    b.run("at('max_tokens').value = 60")
    # Side by side.
    if b.run("at('model').options.length") > 1:
        b.run("at('clear').click(); at('model').selectedIndex = 0; at('beside').selectedIndex = 2")
        b.ask("How are you?")
        b.done()
        check(b.run("turns[0].answers.length") == 2, "two answers")
        check(b.run("turns[0].answers[0].text !== turns[0].answers[1].text"), "which differ")
        b.ask("Who are you?")
        b.done()
        check(b.run("messagesFor(1)[1].content === turns[0].answers[1].text"),
              "each side has its own conversation")
        for dark in (False, True):
            b.size(1280, 800, dark)
            b.shot(folder, "desktop-two-" + ("dark" if dark else "light"))
    if not b.run("at('show-jobs').hidden"):
        jobs(b, folder)
    for dark in (False, True):
        b.size(390, 844, dark)
        no_scroll_sideways(b)
        b.shot(folder, "phone-" + ("dark" if dark else "light"))
    b.run("openSettings(true)")
    no_scroll_sideways(b)
    b.shot(folder, "phone-settings")
    b.size(1280, 800, False)
    b.shot(folder, "desktop-settings")
    check(not b.problems, "messages of the browser: %s" % b.problems)


def main():
    program, url = sys.argv[1:3]
    folder = sys.argv[3] if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as profile:
        b = Browser(program, profile)
        try:
            play(b, url, folder)
        finally:
            b.process.terminate()
            b.process.wait()
    print("page: ok")


if __name__ == "__main__":
    main()
