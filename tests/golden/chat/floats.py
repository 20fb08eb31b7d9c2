"""floats.py [BUILD]: numbers in every notation of JSON, printed, converted and compared by Jinja2 after Python's json has
read them, written to floats.json; with BUILD instead compared with Weft on more of them. Needs jinja2.
"""
import json
import random
import subprocess
import sys

from environment import render

EDGES = """1e400 -1e400 1e-400 0.1 0.30000000000000004 -0.0 -0 0e5 1E5 1e5 1.0 1.50 1e15 1e16 1e22 1e23 5e-324 2.5e-5 0.0001
0.00001 1E+2 1e-7 123456789012345678 12345678901234567890.0 100000000000000000000.5 9007199254740993.0 0.1e1 4.35 2.675
1.7976931348623157e308 1.7976931348623159e308 123e-2 -1.5E-10""".split()
TEMPLATES = """x x|tojson {'a':[x]}|tojson [x] x|string x|int x|float x_is_integer x_is_float x==y x<1 x~'' x|round(2)
'%s'%x '{}'.format(x) '%.3f'%x x|string|float -x [x,1]|max [x,y]|unique|list""".split()


def number(chance):
    text = chance.choice(("", "-")) + str(chance.randrange(10 ** chance.randrange(1, 22)))
    if chance.random() < 0.7:
        text += "." + "".join(chance.choice("0123456789") for _ in range(chance.randrange(1, 22)))
    if chance.random() < 0.6:
        text += chance.choice("eE") + chance.choice(("", "+", "-")) + str(chance.randrange(chance.choice((5, 25, 320))))
    return text


def main():
    compare = len(sys.argv) > 1
    chance = random.Random(5)
    everything = [("{{ " + t.replace("_", " ") + " }}", n)
                  for n in EDGES + [number(chance) for _ in range(600 if compare else 20)] for t in TEMPLATES]
    chosen = everything if compare else chance.sample(everything, 400)
    done = [(t, n, render(t, {"x": json.loads(n), "y": json.loads(n)}, 0)) for t, n in chosen]
    lines = [f'{{"template": {json.dumps(t)}, "variables": {{"x": {n}, "y": {n}}}' for t, n, _ in done]
    if compare:
        text = "".join(line + ', "now": 1}\n' for line in lines)
        run = subprocess.run([f"{sys.argv[1]}/tests/render_lines"], input=text.encode(), stdout=subprocess.PIPE, check=True)
        differ = 0
        for (template, n, want), line in zip(done, run.stdout.decode().splitlines()):
            if json.loads(line).get("text") != want.get("text"):
                differ += 1
                print(f"{template} {n}\n  want {want}\n  got  {line}")
        print(f"{len(done)} templates, {differ} differ")
        sys.exit(differ > 0)
    lines = [line + (f', "text": {json.dumps(want["text"])}' if "text" in want else "") + "}"
             for line, (_, _, want) in zip(lines, done)]
    with open("floats.json", "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(lines) + "\n]}\n")


main()
