"""snippets.py [BUILD]: small templates and what Jinja2 makes of them, written to snippets.json; with BUILD also compared
with Weft at once. Needs jinja2.
"""
import itertools
import json
import random
import sys

from environment import render, weft

NOW = 1700000000
VARIABLES = {
    "s": "Hello World",
    "u": "  Ünï ß\n漢字\t",
    "e": "",
    "i": 7,
    "n": -3,
    "f": 2.5,
    "z": 0,
    "t": True,
    "no": None,
    "l": [3, 1, 2],
    "w": ["b", "A", "c", "a"],
    "em": [],
    "d": {"b": 1, "A": [1, {"x": "y"}], "c": "v<&>\"'"},
    "o": [{"n": "x", "v": 2, "k": {"q": 1}}, {"n": "y", "v": 1}, {"n": "x", "v": 3, "k": {"q": 0}}],
}
NAMES = list(VARIABLES) + ["missing", "[]", "(1, 'a')", "{'k': 1.0}", "'%s and %s'", "1e15", "0.1", "'42'", "' 3.7 '"]
FILTERS = """upper lower capitalize title trim trim('He') string safe length list first last join join('-') reverse sort
sort(reverse=true) unique int int(9) float float(default=1.5) abs round round(1) round(1,'floor') round(2,'ceil')
default('d') default('d',true) d tojson tojson(indent=2) tojson(ensure_ascii=true) tojson(separators=(',',':'))
tojson(sort_keys=true) items dictsort dictsort(reverse=true) dictsort(by='value') min max sum batch(2) batch(2,'x')
slice(2) map('upper') map('string') select reject select('string') select('in',[1,'a']) reject('none')
selectattr('n','equalto','x') selectattr('k') rejectattr('k','defined') map(attribute='n') map(attribute='k.q',default=9)
map(attribute='v')|sum sort(attribute='v') sort(attribute='n,v') groupby('n') join(',',attribute='n') replace('l','L')
replace('','.') replace('l','L',1) indent indent(2,true) indent('>',blank=true) escape e truncate(5) truncate(5,true)
center(20) wordcount format(1,2) attr('x') count nosuch upper|lower list|tojson list|length first|upper
trim|upper|length""".split()
TESTS = """defined undefined none string mapping sequence iterable number integer float boolean true false odd even lower
upper callable escaped divisibleby(3) eq(7) equalto('') ne(1) gt(1) lessthan(3) in([1,7]) sameas(none) filter test
nosuch""".split()
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or"]
METHODS = """s.upper() s.split() s.split('l') s.split('l',1) s.rsplit('o',1) s.split(maxsplit=1) s.strip('Hd') s.lstrip('H')
s.rstrip('d') s.startswith('He') s.startswith(('x','H')) s.endswith('ld') s.replace('o','0') s.replace('o','0',1) s.find('o')
s.rfind('o') s.find('zz') s.index('W') s.count('l') s.title() s.capitalize() s.partition(' ') s.rpartition('o')
s.splitlines() u.splitlines() u.strip() u.upper() u.lower() u.title() s.isdigit() '12'.isdigit() s.isalpha() s.isupper()
s.center(20,'*') s.ljust(13) s.rjust(13) '5'.zfill s.removeprefix('He') s.removesuffix('ld') ','.join(w) ','.join(l)
'{}-{}'.format(1,'a') '{1}{0}'.format(1,2) '{x!r:>6}|'.format(x='q') '{:05d}|{:<5}|{:^7.2f}|{:,}'.format(42,'ab',3.14159,1234567)
'{0[b]}'.format(d) '{{}}'.format() '%s|%5d|%-4s|%.2f|%r|%%'%('a',3,'b',1.005,'c') '%(b)s'%d '%s'%l d.keys() d.values() d.items()
d.get('b') d.get('zz') d.get('zz',5) d.keys()|list d.copy() d['b'] d.b d.A[1].x d['A'][0] d.zz d.zz.y l[0] l[-1] l[9] l['x']
l[1:] l[:-1] l[::-1] l[::2] l[5:] l[-2:9] s[0] s[-1] s[99] s[1:4] s[::-1] u[2:5] u[::2] l.index(1) l.count(1) l.copy()
o[0].n o[0]['k'].q o[-1].v o|length range(5)|list range(2,9,3)|list range(5,0,-2)|list range(3) range(9)[2:4]|list dict(a=1,b='x')
dict([('a',1)]) namespace(a=1).a 1<2<3 1<3<2 not_defined_x -i|abs -2**2 2**-1 7//2 -7//2 7%-3 -7%3 7.5//2 7.5%-2 1/3 1e3 1_000
0x1f 0b11 1.0 100000000000000000.0 1e16 123456789.123 0.00001 0.0001 1e-7 true none True (1,) () (1,2)[0] [1,[2,[3]]] {'a':{'b':1}}
'a''b' 'tab\\tnl\\nx\\x41\\u00e9' "q'q" 'q"q' 'back\\\\slash' ['q\\'s',"d\\"s",'n\\n'] s|length>3 (s~i)|upper s~none~true~1.5
'x'if t else'y' 'x'if z 'x'if z else'y'if no else'w' not t not z t and s z or e or'last' missing.x missing['x'] missing+1 -missing
missing|length missing|list missing==missing missing is defined missing~'a' [missing] {'a':missing} s()
strftime_now('%Y') raise_exception('no') joiner()() loop""".split()
STATEMENTS = [
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}={{ x }} {% else %}none{% endfor %}",
    "{% for x in em %}{{ x }}{% else %}empty{% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}empty{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for a in l %}{% for b in l %}{% if b == 2 %}{% continue %}{% endif %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
    "{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}{{ ns.y }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, q) = (b, a) %}{{ c }}{{ q }}",
    "{% set x %}a{{ i }}b{% endset %}{{ x|upper }}",
    "{% set x | upper | replace('A', 'z') %}a{{ i }}b{% endset %}{{ x }}",
    "{% if z %}a{% elif e %}b{% elif i == 7 %}c{% else %}d{% endif %}",
    "{% if t %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% macro m(a, b=2, c=b) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=5) }} {{ m(b=1, a=9) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ i }}{% endcall %}",
    "{% macro m() %}<{{ caller(1, b=2) }}>{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m(x) %}{% set y = x %}{{ y }}{{ i }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m('q') }}{{ y }}",
    "{% macro m(x) %} {{ x }} {% endmacro %}{{ m('a') + 'b' }}{{ m('c') | trim }}",
    "{% filter upper | replace('L', '1') %}hello {{ s }}{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}gen {{ i }}{% set hidden = 1 %}{% endgeneration %}{{ hidden }}",
    "{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%} {{ y }} {%- endraw -%} |",
    "a{# comment #}b{#- c -#} d",
    "  {% if t %}  \n  x\n  {% endif %}  \n  y\n",
    "  {%- if t -%}  \n  x\n  {%- endif -%}  \n  y\n",
    "  {%+ if t +%}\n  x\n  {%+ endif +%}\n  y\n\n",
    "{% if t %}\n\n a\n{% endif %}\n\n b {{ i }}\n c {{- i -}} d \n",
    "x\n   {# c #}\n  y {# d #}\nz\r\nq\rw",
    "{{ 'a' }}\n{{- 'b' }}  {{ 'c' -}}  \n d",
    "{% for x in l %}\n  - {{ x }}\n{% endfor %}\nend",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for x in range(3) %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% set g = o | map(attribute='n') %}{{ g | list }}{{ g | list }}",
    "{% if o | selectattr('n', 'equalto', 'none') %}yes{% endif %}{{ (o | selectattr('v', 'gt', 1) | list)[0].n }}",
    "{{ '<' + (s | safe) + '>' }}{{ ('<a>' | safe) ~ '<b>' }}{{ 'x' | safe | upper + '<' }}",
    "{{ [1, 2] + [3] }}{{ (1,) + (2,) }}{{ [0] * 3 }}{{ 'ab' * 2 }}{{ 2 * 'ab' }}",
    "{{ {'a': 1} == {'a': 1.0} }}{{ [1, 2] == [1, 2] }}{{ (1, 2) == [1, 2] }}{{ 1 == true }}{{ '1' == 1 }}",
    "{{ [1, 'a'] < [1, 'b'] }}{{ 'a' < 'B' }}{{ 1 < 'a' }}",
    "{% set d2 = dict(d, z=9) %}{{ d2 }}{% set m = {1: 'a', 1.0: 'b', true: 'c'} %}{{ m }}",
    "{{ d | tojson }}{{ o | tojson(indent=4) }}{{ [] | tojson(indent=1) }}{{ {1: none, true: 1.5} | tojson }}",
    "{% for x in no %}{% endfor %}",
    "{% for x in i %}{% endfor %}",
    "{{ missing.x }}",
    "{% set x.y = 1 %}",
    "{% if %}x{% endif %}",
    "{% for %}",
    "{{ 1 + }}",
    "{{ 'a",
    "{% endif %}",
    "{% if t %}",
    "{{ ( }}",
    "{% nosuch %}",
    "{{ a b }}",
    "{# open",
    "{% break %}",
    "{{ {} }}{{ {'a': [1, {'b': (1, 2)}]} }}",
    "{{- '}}' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ i if i is number and i is not string else s }}",
    "{{ i is divisibleby 7 }}{{ i is in [7] }}{{ not i is none }}{{ i is not none and t is true }}",
    "{{ l is sequence and l is not mapping and l is not string }}",
    "{% set content = message.content if message is defined else 'd' %}{{ content }}",
    "{{ ['a', 'b'] | map('upper') | join(', ') }}{{ [1, 2, 3] | select('odd') | list }}",
    "{{ s.split(' ')[-1].lstrip('W') }}{{ s.split('o') | last }}{{ (s | lower).split() | first }}",
    "{% set a = [] %}{% for x in l %}{% set a = a + [x * 2] %}{% endfor %}{{ a }}",
    "{{ d.items() | list }}{{ d | items | list }}{{ d.keys() }}{{ d.values() | list | length }}",
    "{% for x in l | sort %}{{ x }}{% endfor %}{% for a, b in {'z': 1, 'y': 2} | dictsort %}{{ a }}{{ b }}{% endfor %}",
    "{{ none is none }}{{ missing is none }}{{ false is boolean }}{{ 1 is boolean }}{{ 1.0 is integer }}{{ true is number }}",
    "{{ strftime_now('%d %b %Y %H') | length }}",
    "{% for m in o %}{% if loop.index0 == 0 or o[loop.index0 - 1].n != m.n %}new {% endif %}{{ m.n }}{% endfor %}",
]


def all_templates():
    chance = random.Random(3)
    out = list(STATEMENTS)
    out += ["{{ " + m + " }}" for m in METHODS]
    filters = [f"{{{{ {v} | {f} }}}}" for v, f in itertools.product(NAMES, FILTERS)]
    tests = [f"{{{{ {v} is {t} }}}}" for v, t in itertools.product(NAMES, TESTS)]
    signs = [f"{{{{ {a} {s} {b} }}}}" for a, s, b in itertools.product(NAMES, BINARY, NAMES)]
    filters += [f"{{{{ {v} | {f} | list }}}}" for v, f in itertools.product(NAMES, FILTERS)]
    return out, filters + tests + signs, chance


def main():
    fixed, many, chance = all_templates()
    chosen = fixed + chance.sample(many, 1100)
    everything = fixed + many
    cases = []
    for template in everything if len(sys.argv) > 1 else chosen:
        got = render(template, json.loads(json.dumps(VARIABLES)), NOW)
        if " at 0x" in got.get("text", ""):
            continue
        if len(got.get("text", "")) > 2000:
            continue
        cases.append({"template": template, **({"text": got["text"]} if "text" in got else {"error": got["error"]})})
    if len(sys.argv) > 1:
        differ = 0
        lines = [{"template": c["template"], "variables": VARIABLES, "now": NOW} for c in cases]
        for case, got in zip(cases, weft(sys.argv[1], lines)):
            if case.get("text") != got.get("text"):
                differ += 1
                print(f"{case['template']!r}\n  want {case.get('text', case.get('error'))!r}\n  got  {got}")
        print(f"{len(cases)} templates, {differ} differ")
        sys.exit(differ > 0)
    for case in cases:
        if "error" in case:
            case["error"] = True
    with open("snippets.json", "w", encoding="utf-8") as file:
        text = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
        file.write('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ', "now": ' + str(NOW) + ', "cases": [\n')
        file.write(text + "\n]}\n")


main()
