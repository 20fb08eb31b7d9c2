"""tests/mutation/mutate.py -- changes the library in one small place at a time and runs the suites
that should notice.

    python3 tests/mutation/mutate.py prepare [--folder F]         a worktree of HEAD, built
    python3 tests/mutation/mutate.py run [--folder F] [--count N] [--seed S] [--areas ops,nn,...]
    python3 tests/mutation/mutate.py again [--folder F]           the survivors once more
    python3 tests/mutation/mutate.py report [--folder F]          totals and survivors

F is a folder beside the checkout (../NAME-mutation): a git worktree with a build folder of its own
(-O1, no debug information, no Vulkan), so nothing here changes the files or the builds of the user.
Results are lines of JSON in F/mutations.jsonl; a run goes on where the last one stopped. Check out
another commit in F and `again` tries the survivors there: it follows files that git has moved.

The choice is seeded. An area is drawn by its number of places, a file of it by the square root of
its number, a kind of change and a place of that kind evenly. A change that does not compile is drawn
again; one whose object file equals that of the unchanged source is counted as equivalent. The rest
meet the suites that suites.txt names for the file, the fastest first, then, if they survive, its
second list. A suite kills when it fails, crashes or takes more than ten times its usual processor
time (WEFT_TEST_STOP ends it at the first failed check)."""
import argparse
import collections
import functools
import hashlib
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import places  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OPTIONS = ["-Dbuildtype=plain", "-Doptimization=1", "-Ddebug=false", "-Dvulkan=disabled"]
GENEROUS = 10      # times the usual processor time
AT_LEAST = 20      # seconds
PATIENCE = 900     # seconds on the wall, for a deadlock on a busy machine
MOST_MEMORY = 24 << 30


def sh(arguments, folder, **more):
    return subprocess.run(arguments, cwd=folder, text=True, capture_output=True, **more)


def load_map():
    """[(prefix, first suites, second suites)], the longest prefix first."""
    rows = []
    with open(os.path.join(HERE, "suites.txt"), encoding="utf-8") as f:
        for line in f:
            line = line.split("#")[0].strip()
            if line:
                prefix, rest = line.split(":", 1)
                first, _, second = rest.partition("|")
                rows.append((prefix.strip(), first.split(), second.split()))
    return sorted(rows, key=lambda r: -len(r[0]))


def suites_of(path, rows):
    """The first and the second list for a file: those of all prefixes, the nearest first."""
    first, second = [], []
    for prefix, one, two in rows:
        if path.startswith(prefix):
            if not first:
                first = list(one)
                second = list(two)
            else:
                second += [s for s in one + two if s not in first and s not in second]
    return first, [s for s in second if s not in first]


class Tree:
    def __init__(self, folder):
        self.folder = folder
        self.build = os.path.join(folder, "build")
        self.usual_file = os.path.join(folder, "usual.json")
        self.usual = {}
        if os.path.exists(self.usual_file):
            with open(self.usual_file, encoding="utf-8") as f:
                self.usual = json.load(f)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def ninja(self, *targets):
        done = sh(["ninja", "-C", self.build, "-j1", *targets], self.folder)
        return done.returncode == 0, done.stdout[-2000:]

    def object_of(self, name):
        target = "libweft-internal.a.p/" + name.replace("/", "_") + ".o"
        built, _ = self.ninja(target)
        if not built:
            return None
        with open(os.path.join(self.build, target), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def ops_in(self, text):
        names = re.findall(r"const weft_op weft_op_(\w+) = \{\s*\.name = \"(\w+)\"", text)
        return [n for _, n in names]

    def suite(self, suite, limit):
        """Runs one suite: (killed how or None, processor seconds). suite may be op_table@NAMES."""
        name, _, ops = suite.partition("@")
        env = dict(os.environ, WEFT_TEST_STOP="1")
        if ops:
            env["WEFT_TEST_OPS"] = "," + ops + ","

        def limits():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen([os.path.join(self.build, "tests", "test_" + name)], env=env,
                                 cwd=self.folder, preexec_fn=limits, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, errors = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            _, errors = child.communicate()
            return "stuck", PATIENCE, ""
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        message = errors.decode("utf-8", "replace").strip().split("\n")[0][:200]
        if child.returncode == 0:
            return None, used, ""
        if child.returncode == -signal.SIGXCPU or used >= limit:
            return "time", used, message
        return ("signal %d" % -child.returncode if child.returncode < 0 else "failed"), used, message

    def limit_of(self, suite):
        return int(max(AT_LEAST, GENEROUS * self.usual.get(suite.partition("@")[0], AT_LEAST)))

    def measure(self, suites):
        """The processor time that suites take usually; one that fails unchanged is left out."""
        for name in suites:
            if name in self.usual:
                continue
            built, log = self.ninja("tests/test_" + name)
            killed, used, message = self.suite(name, 1200) if built else ("not built", 0, log)
            self.usual[name] = -1 if killed else used
            print("usual %-24s %7.2f s %s %s" % (name, used, killed or "", message), flush=True)
            with open(self.usual_file, "w", encoding="utf-8") as f:
                json.dump(self.usual, f, indent=1, sort_keys=True)


def prepare(folder):
    if not os.path.exists(folder):
        done = sh(["git", "worktree", "add", "--detach", folder, "HEAD"], ROOT)
        if done.returncode:
            sys.exit(done.stderr)
    if not os.path.exists(os.path.join(folder, "build", "build.ninja")):
        done = sh(["meson", "setup", "build", *OPTIONS], folder)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    tree = Tree(folder)
    wanted = sorted({s.partition("@")[0] for _, a, b in load_map() for s in a + b})
    built, log = tree.ninja(*["tests/test_" + s for s in wanted])
    if not built:
        sys.exit(log)
    return tree


def c_files(tree, areas):
    found = sh(["git", "ls-files", "--", *[a + "/*.c" for a in areas]], tree.folder).stdout.split()
    return sorted(found)


class Choice:
    """Draws a change: an area, a file, a kind, a place."""

    def __init__(self, tree, areas, seed):
        self.random = random.Random(seed)
        self.tree = tree
        self.areas = collections.defaultdict(list)
        for name in c_files(tree, areas):
            found = places.places(tree.read(name))
            if found:
                area = next(a for a in areas if name.startswith(a + "/"))
                self.areas[area].append((name, found))

    def draw(self):
        draw = self.random
        names = sorted(self.areas)
        area = draw.choices(names, [sum(len(f[1]) for f in self.areas[a]) for a in names])[0]
        files = self.areas[area]
        name, found = draw.choices(files, [math.sqrt(len(f[1])) for f in files])[0]
        kind = draw.choice(sorted({c.kind for c in found}))
        return name, draw.choice([c for c in found if c.kind == kind])


def describe(name, text, change):
    line = text.count("\n", 0, change.start) + 1
    start = text.rfind("\n", 0, change.start) + 1
    return {"file": name, "line": line, "column": change.start - start, "kind": change.kind,
            "before": text[change.start:change.end], "after": change.after,
            "text": places.line_of(text, change.start)}


def identity(row):
    return (row["file"], row["text"], row["column"], row["kind"], row["before"], row["after"])


def ordered(tree, suites, ops):
    known = [s for s in suites if tree.usual.get(s.partition("@")[0], -1) >= 0]
    out = []
    for s in sorted(known, key=lambda s: (not s.endswith("@"), tree.usual[s.partition("@")[0]])):
        if s.endswith("@"):
            out += [s + ",".join(ops)] if ops else []
        else:
            out.append(s)
    return out


def attempt(tree, name, text, change, rows, longest):
    """What came of one change: a dictionary with `result`."""
    base = tree.object_of(name)
    if base is None:
        sys.exit(name + ": the unchanged file does not compile")
    started = time.time()
    first, second = suites_of(name, rows)
    tree.measure([s.partition("@")[0] for s in first + second])
    ops = tree.ops_in(text)
    out = {"result": "survived", "by": "", "how": "", "seconds": 0, "ran": []}
    try:
        tree.write(name, places.apply(text, change))
        changed = tree.object_of(name)
        if changed is None:
            return dict(out, result="invalid")
        if changed == base:
            return dict(out, result="equivalent")
        brief = [s for s in second if tree.usual[s.partition("@")[0]] <= longest]
        for suites in (ordered(tree, first, ops), ordered(tree, brief, ops)):
            for suite in suites:
                built, log = tree.ninja("tests/test_" + suite.partition("@")[0])
                if not built: # a generator runs during the build and failed
                    return dict(out, result="killed", by="build", how=log[-200:])
                how, _, message = tree.suite(suite, tree.limit_of(suite))
                out["ran"].append(suite)
                if how:
                    return dict(out, result="killed", by=suite, how=how + ": " + message)
        return out
    finally:
        tree.write(name, text)
        out["seconds"] = round(time.time() - started, 1)


def results(tree):
    path = tree.path("mutations.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def keep(tree, row):
    with open(tree.path("mutations.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps(row) + "\n")


def run(tree, areas, count, seed, longest):
    rows, choice = load_map(), Choice(tree, areas, seed)
    commit = sh(["git", "rev-parse", "HEAD"], tree.folder).stdout.strip()
    tried = {identity(r) for r in results(tree)}
    done = 0
    while done < count:
        name, change = choice.draw()
        text = tree.read(name)
        row = describe(name, text, change)
        if identity(row) in tried:
            if any(identity(r) == identity(row) and r["result"] in ("killed", "survived")
                   for r in results(tree)):
                done += 1
            continue
        tried.add(identity(row))
        began = time.time()
        row["commit"] = commit
        row.update(attempt(tree, name, text, change, rows, longest))
        row["seconds"] = round(time.time() - began, 1)
        keep(tree, row)
        done += row["result"] in ("killed", "survived")
        print("%4d %-10s %s:%d %s `%s` -> `%s` %s (%.0f s)" % (
            done, row["result"], name, row["line"], row["kind"], " ".join(row["before"].split()),
            row["after"], row["by"], row["seconds"]), flush=True)


@functools.lru_cache(None)
def moved_since(folder, commit):
    """{old path: new path} of the files that git has moved since the commit."""
    lines = sh(["git", "diff", "-M30%", "--diff-filter=R", "--name-status", commit, "HEAD"],
               folder).stdout.splitlines()
    return {old: new for _, old, new in (line.split("\t") for line in lines)}


def file_of(tree, row):
    moved = moved_since(tree.folder, row["commit"]) if "commit" in row else {}
    return moved.get(row["file"], row["file"])


def find_again(tree, row):
    """The change of an earlier row in the file as it is now: the place nearest to its line."""
    if not os.path.exists(tree.path(file_of(tree, row))):
        return None, None
    text = tree.read(file_of(tree, row))
    same = [c for c in places.places(text)
            if identity(describe(row["file"], text, c)) == identity(row)]
    near = sorted(same, key=lambda c: abs(text.count("\n", 0, c.start) + 1 - row["line"]))
    return text, near[0] if near else None


def again(tree, longest):
    """The survivors once more, against the sources and tests that the folder has now."""
    rows = load_map()
    for row in latest_of(tree).values():
        if row["result"] != "survived":
            continue
        name = file_of(tree, row)
        text, change = find_again(tree, row)
        new = dict(row, **attempt(tree, name, text, change, rows, longest))
        keep(tree, new)
        print("%-10s %s:%d %s %s" % (new["result"], name, new["line"], new["text"].strip(),
                                     new["by"]), flush=True)


def latest_of(tree):
    """The last result of each place that is still one: the files and the rules may have changed."""
    latest = {identity(r): r for r in results(tree)}
    return {i: r for i, r in latest.items() if find_again(tree, r)[1] is not None}


def report(tree):
    latest = latest_of(tree)
    counts = collections.Counter(r["result"] for r in latest.values())
    tried = counts["killed"] + counts["survived"]
    print("%d tried: %d killed, %d survived (%.1f%%); %d equivalent, %d did not compile" % (
        tried, counts["killed"], counts["survived"], 100 * counts["survived"] / max(tried, 1),
        counts["equivalent"], counts["invalid"]))
    for r in sorted(latest.values(), key=lambda r: (r["file"], r["line"])):
        if r["result"] == "survived":
            print("%s:%d (%s) `%s` -> `%s`\n    %s" % (
                r["file"], r["line"], r["kind"], " ".join(r["before"].split()), r["after"],
                r["text"].strip()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["prepare", "run", "again", "report"])
    parser.add_argument("--folder", default=ROOT + "-mutation")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=math.inf,
                        help="leave out suites of the second list that take more seconds")
    parser.add_argument("--areas", default="ops,nn,models,train,core")
    o = parser.parse_args()
    os.nice(15 - os.nice(0) if os.nice(0) < 15 else 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # the changed file is put back
    # As in tools/build.sh; and the compiler's cache serves other worktrees.
    os.environ["PATH"] = "/usr/bin:" + os.environ["PATH"]
    os.environ.setdefault("CCACHE_BASEDIR", os.path.dirname(ROOT))
    tree = Tree(o.folder) if o.what in ("report", "again") else prepare(o.folder)
    if o.what == "run":
        run(tree, o.areas.split(","), o.count, o.seed, o.longest)
    elif o.what == "again":
        again(tree, o.longest)
    if o.what != "prepare":
        report(tree)


if __name__ == "__main__":
    main()
