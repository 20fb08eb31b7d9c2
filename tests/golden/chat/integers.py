"""integers.py [BUILD]: integers up to and beyond 64 bits, printed, converted and compared by Jinja2, written to
integers.json; with BUILD instead compared with Weft on more of them. Needs jinja2.
"""
import json
import random
import sys

from environment import render, weft

EDGES = [0, 1, 7, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, 10**19, 10**20,
         10**22, 10**23, 2**100, 10**30 + 1]
FLOATS = [0.5, -1.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e19, 1e20, 1e23, 1e30, 1e300, -1e300]
SINGLE = """a a|string a|tojson a|int a|abs -a +a a|round (a,) {'k':a} {a:1} {a:1}|tojson [a]|tojson(indent=1) a|float
a|string|int a|string|int|string a|string|length a~'!' '%s'%a '%d'%a '%50d|'%a '%-50d|'%a '%+d'%a '{}'.format(a) '{:d}'.format(a)
'{:,}'.format(a) '{:+,}'.format(a) '{:>50}'.format(a) '{:<50}|'.format(a) '{:^50}'.format(a) '{:050d}'.format(a) '{:.3e}'.format(a)
'%.2e'%a '%r'%a '{!r}'.format(a) a|float|int (a|float|int)==a a==(a|float) a<(a|float) a>(a|float) a|bool (a|string~'_0')|int
('0'~(a|abs|string))|int ('+'~(a|abs|string))|int (' '~a~' ')|int (a~'x')|int(default='no') (a|abs|string)|int(base=16)
(a|abs|string)|int(base=36) a|default(1) a|first a|length not_a""".split()
TESTS = "integer number float string boolean defined none mapping iterable sequence sameas(a) eq(a) in([a]) true".split()
PAIRS = """a==b a!=b a<b a<=b a>b a>=b a<b<a a_in_[b,1] [a]==[b] [a]<[b] {a:1}=={b:1} {a:'x'}[b]|default('none') [a,b,1,0]|sort
[a,b]|min [a,b]|max [a,b,a]|unique|list [b,a]|sort(reverse=true)|tojson {b:1,a:2}|dictsort {a:1,b:2}|tojson
[[a,b],[b,a]]|sort a_if_a>b_else_b a_is_eq(b) a_is_lt(b) a_is_ge(b) [a,b]|select('gt',b)|list [a,b]|join(',')""".split()


def templates():
    single = ["{{ " + t + " }}" for t in SINGLE] + ["{{ a is " + t + " }}" for t in TESTS]
    return single, ["{{ " + t.replace("_", " ") + " }}" for t in PAIRS]


def values(chance, n):
    out = [s * e for e in EDGES for s in (1, -1)]
    out += [chance.choice((1, -1)) * chance.randrange(10 ** chance.randrange(1, 60)) for _ in range(n)]
    return list(dict.fromkeys(out))


def cases(chance, n_values, n_pairs):
    single, pairs = templates()
    integers = values(chance, n_values)
    for value in integers:
        yield from ((t, {"a": value}) for t in single)
        yield "{{ " + str(value) + " }}{{ " + str(value) + " == a }}", {"a": value}
    for a in integers:
        for b in chance.sample(integers, n_pairs) + chance.sample(FLOATS, 2) + [a, a + 1]:
            yield from ((t, {"a": a, "b": b}) for t in pairs)
            yield from ((t, {"a": b, "b": a}) for t in pairs)


def main():
    compare = len(sys.argv) > 1
    chance = random.Random(9)
    everything = list(cases(chance, 60 if compare else 6, 8 if compare else 2))
    chosen = everything if compare else chance.sample(everything, 700)
    done = [{"template": t, "variables": v, **render(t, v, 0)} for t, v in chosen]
    if compare:
        differ = 0
        for case, got in zip(done, weft(sys.argv[1], [{**c, "now": 1} for c in done])):
            if case.get("text") != got.get("text"):
                differ += 1
                print(f"{case['template']} {case['variables']}\n  want {case.get('text', case.get('error'))}\n  got  {got}")
        print(f"{len(done)} templates, {differ} differ")
        sys.exit(differ > 0)
    for case in done:
        case.pop("error", None)
    with open("integers.json", "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in done) + "\n]}\n")


main()
