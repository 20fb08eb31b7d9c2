"""tests/mutation/places.py -- the places of a C file that can be changed, and the changes.

A place is one token or a few of them inside a function body, or an operator in the formula of an op.
places(text) lists Change objects. Each has a kind:

    sign        + and - exchanged, * and / exchanged, a unary minus dropped
    comparison  < for <=, > for >=, == for !=, and back
    logic       && and || exchanged, a ! dropped, true and false exchanged
    one         an integer literal one higher
    constant    a floating literal doubled (0 becomes 1)
    term        the right operand of an operator dropped
    swap        two neighboring arguments of a call exchanged
    statement   an assignment or a call dropped

Left out, because no test can decide them or because they are no part of what a function computes:
preprocessor lines; assertions; calls with the text of a message among their arguments; initialisers
outside functions (tables; the formulas of ops are in); what asks for memory and frees it, the lengths
of local arrays and the factor by which a buffer grows (too much is not seen, too little and leaks are
found by the sanitizer builds); hashes (another one is as good); exchanged arguments of a function
that is symmetric, or is compared with 0 (strcmp)."""
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\\]+)|(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<pre>(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<string>"(?:\\.|[^"\\])*")|(?P<char>'(?:\\.|[^'\\])*')
    |(?P<number>(?:0[xX][0-9a-fA-F.]+(?:[pP][-+]?\d+)?|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.VERBOSE | re.DOTALL)

PRECEDENCE = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, ">": 7, "<=": 7,
              ">=": 7, "==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "|=", "&=", "^=", "%=", "<<=", ">>="}
OPENERS = {"(": ")", "[": "]", "{": "}"}
EXCHANGED = {"+": ("sign", "-"), "-": ("sign", "+"), "*": ("sign", "/"), "/": ("sign", "*"),
             "+=": ("sign", "-="), "-=": ("sign", "+="), "*=": ("sign", "/="),
             "<": ("comparison", "<="), "<=": ("comparison", "<"), ">": ("comparison", ">="),
             ">=": ("comparison", ">"), "==": ("comparison", "!="), "!=": ("comparison", "=="),
             "&&": ("logic", "||"), "||": ("logic", "&&")}
KEYWORDS = {"return", "if", "while", "for", "switch", "case", "sizeof", "else", "do", "goto",
            "break", "continue", "default", "const", "static", "struct", "enum", "union"}
TYPES = re.compile(r"^(const|static|int|char|bool|float|double|void|unsigned|long|short|size_t|"
                   r"u?int\d+_t|weft_[a-z_]*|struct|enum|union)$")
FREES = re.compile(r"^(weft__)?(\w*_)?(free|drop|release|destroy|close|unlock|lock|fclose|munmap)$")
ASKS = re.compile(r"^(malloc|calloc|realloc|weft_malloc|weft_calloc|weft_realloc|weft__arena_take\w*|"
                  r"weft__plan_alloc|weft__jinja_take|alloca)$")
SYMMETRIC = re.compile(r"^(str(case)?cmp|strncmp|memcmp|fmax|fmin|fmaxf|fminf|hypot|weft_add|weft_multiply|"
                       r"weft_maximum|weft_minimum|weft_equal|weft_not_equal|weft_logical_\w+|gcd|"
                       r"weft_dims_equal|weft__dims_equal|same_\w+|larger|smaller)$")
HASHES = re.compile(r"hash|\bmix\(|weft__mix\(|0x9[eE]3779|UINT64_C\(0x[0-9A-Fa-f]{16}\)")
GROWS = re.compile(r"capacity|\broom\b|realloc|\bgrow|_BLOCK\b|stack_size|block_size")


@dataclass(frozen=True)
class Change:
    kind: str
    start: int   # offsets into the text
    end: int
    after: str


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


def tokens(text):
    """The tokens of text, without white space and comments."""
    found, at = [], 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            at += 1
            continue
        if m.lastgroup not in ("space", "comment"):
            found.append(Token(m.lastgroup, m.group(), m.start(), m.end()))
        at = m.end()
    return found


def partners(toks):
    """For each bracket the index of the other one of its pair."""
    other, stack = {}, []
    for i, t in enumerate(toks):
        if t.kind != "op":
            continue
        if t.text in OPENERS:
            stack.append(i)
        elif t.text in ")]}" and stack:
            j = stack.pop()
            other[i], other[j] = j, i
    return other


def is_operand_end(t):
    return t.kind in ("number", "string", "char") or t.text in (")", "]") or (
        t.kind == "name" and t.text not in KEYWORDS)


def body_ranges(text, toks, other):
    """Pairs of token indices: function bodies, whose braces stand in the first column."""
    for i, t in enumerate(toks):
        if t.text == "{" and t.kind == "op" and (t.start == 0 or text[t.start - 1] == "\n"):
            if i in other:
                yield i, other[i]


def skipped(toks, other, first, last):
    """Indices of tokens inside assertions, frees and calls with a message's text."""
    out = set()
    for i in range(first, last):
        t = toks[i]
        if t.kind != "name" or i + 1 >= last or toks[i + 1].text != "(" or i + 1 not in other:
            continue
        close = other[i + 1]
        inside = toks[i + 2:close]
        message = any(x.kind == "string" and re.search(r"[a-z] |%", x.text) for x in inside)
        if ASKS.match(t.text):
            out.update(range(i + 1, close + 1))
        if t.text in ("assert", "static_assert", "_Static_assert", "sizeof", "WEFT_UNUSED"):
            out.update(range(i, close + 1))
        elif FREES.match(t.text) or (message and t.text not in KEYWORDS):
            out.update(range(i, close + 1))
    return out


def operand_after(toks, other, i, last):
    """The index past the right operand of the binary operator at i."""
    level, j = PRECEDENCE[toks[i].text], i + 1
    operand = False
    while j < last:
        t = toks[j]
        if t.kind == "op":
            if t.text in ")]};,?:" or t.text in ASSIGNMENTS:
                break
            if operand and t.text in PRECEDENCE and PRECEDENCE[t.text] <= level:
                break
            if t.text in OPENERS:
                j = other.get(j, last)
                operand = True
            elif t.text in PRECEDENCE or t.text in ("!", "~"):
                operand = False
        else:
            operand = True
        j += 1
    return j


def arguments(toks, other, i):
    """Token ranges of the arguments of the call whose ( is at i."""
    close, ranges, start, j = other[i], [], i + 1, i + 1
    while j < close:
        if toks[j].text in OPENERS and toks[j].kind == "op" and j in other:
            j = other[j]
        elif toks[j].text == ",":
            ranges.append((start, j))
            start = j + 1
        j += 1
    if close > start:
        ranges.append((start, close))
    return ranges


def is_length(line, t, text):
    """Whether the number is the length of a local array: `char name[2][8];`, `int a[4] = {0}`."""
    declared = re.match(r"\s*(static |const )*(struct |unsigned )?\w+( \*?|\*)\w+(\[[^]]*\])+\s*(=|;|,)", line)
    return declared and t.start < text.rfind("\n", 0, t.start) + 1 + declared.end(4)


def literal(t, line, text):
    if GROWS.search(line) or HASHES.search(line) or is_length(line, t, text):
        return None
    s = t.text
    if re.fullmatch(r"\d+[uUlL]*", s):
        digits = re.match(r"\d+", s).group()
        return Change("one", t.start, t.end, str(int(digits) + 1) + s[len(digits):])
    m = re.fullmatch(r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)([fF]?)", s)
    if m and not s.lower().startswith("0x"):
        value = float(m.group(1))
        return Change("constant", t.start, t.end, (repr(value * 2) if value else "1.0") + m.group(2))
    return None


def is_declaration(toks, start):
    t = toks[start]
    if t.kind != "name":
        return False
    nxt = toks[start + 1]
    if nxt.kind == "name":
        return True
    return nxt.text == "*" and (TYPES.match(t.text) is not None or toks[start + 2].text == "const" or
                                (toks[start + 2].kind == "name" and toks[start + 3].text in ("=", ";", ",")))


def statements(toks, first, last, avoid, other):
    """Assignments and calls that stand alone."""
    i = first + 1
    while i < last:
        before = toks[i - 1].text
        starts = before in (";", "{", "}", "else") or (
            before == ")" and i - 1 in other and toks[other[i - 1] - 1].text in ("if", "for", "while"))
        t = toks[i]
        if not starts or i in avoid or t.text in KEYWORDS or t.text in "{}" or is_declaration(toks, i):
            i += 1
            continue
        j, simple = i, t.kind == "name" or t.text in ("*", "(", "++", "--")
        while j < last and toks[j].text != ";":
            if toks[j].text == ")" and other.get(j, 0) < i: # the head of a for
                simple = False
                break
            if toks[j].text in OPENERS and j in other:
                j = other[j]
            elif toks[j].text in ("{", "}", ":"):
                simple = simple and toks[j].text == ":" and any(x.text == "?" for x in toks[i:j])
            j += 1
        body = toks[i:j]
        does = any(x.text in ASSIGNMENTS or x.text in ("++", "--", "(") for x in body)
        void = len(body) > 2 and body[0].text == "(" and body[1].text == "void"
        hashes = HASHES.search(" ".join(x.text for x in body))
        if simple and does and not hashes and not void and j < last and not avoid.intersection(range(i, j)):
            yield Change("statement", toks[i].start, toks[j].end, ";")
        i = j + 1


def formula_changes(text):
    for m in re.finditer(r'\.(real|integer|complex_|boolean|wide)\s*=\s*"((?:[^"\\]|\\.)*)"', text):
        for o in re.finditer(r"<=|>=|==|!=|[-+*/<>]", m.group(2)):
            exchanged = EXCHANGED.get(o.group())
            if exchanged:
                at = m.start(2) + o.start()
                yield Change(exchanged[0], at, at + len(o.group()), exchanged[1])


def line_of(text, at):
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start:end if end >= 0 else len(text)]


def token_changes(text, toks, other, i, first, last):
    t, before = toks[i], toks[i - 1]
    binary = is_operand_end(before)
    if t.kind == "number":
        change = literal(t, line_of(text, t.start), text)
        if change:
            yield change
    elif t.kind == "name" and t.text in ("true", "false"):
        yield Change("logic", t.start, t.end, "false" if t.text == "true" else "true")
    elif t.kind == "name" and t.text not in KEYWORDS and toks[i + 1].text == "(" and i + 1 in other:
        ranges = [] if SYMMETRIC.match(t.text) else arguments(toks, other, i + 1)
        for (a, b), (c, d) in zip(ranges, ranges[1:]):
            one, two = text[toks[a].start:toks[b - 1].end], text[toks[c].start:toks[d - 1].end]
            if one != two:
                yield Change("swap", toks[a].start, toks[d - 1].end, two + ", " + one)
    elif t.kind == "op" and t.text == "!":
        yield Change("logic", t.start, t.end, "")
    elif t.kind == "op" and t.text == "-" and not binary and toks[i + 1].text != ">":
        yield Change("sign", t.start, t.end, "")
    elif t.kind == "op" and t.text in EXCHANGED and (binary or t.text in ASSIGNMENTS):
        if t.text == "*" and (TYPES.match(before.text) or toks[i + 1].text in (")", "const", ",", "*")):
            return # a pointer type
        line = line_of(text, t.start)
        grows = (GROWS.search(line) or HASHES.search(line)) and t.text in "+-*/"
        kind, after = EXCHANGED[t.text]
        if not grows:
            yield Change(kind, t.start, t.end, after)
        if t.text in ("+", "-", "*", "/", "&&", "||") and not grows:
            end = operand_after(toks, other, i, last)
            if end > i + 1:
                yield Change("term", before.end, toks[end - 1].end, "")


def places(text):
    """All changes that can be made to the text of one C file, in order."""
    toks = tokens(text)
    toks = [t for t in toks if t.kind != "pre"]
    other = partners(toks)
    found = list(formula_changes(text))
    for first, last in body_ranges(text, toks, other):
        avoid = skipped(toks, other, first, last)
        found.extend(statements(toks, first, last, avoid, other))
        for i in range(first + 1, last):
            if i not in avoid:
                found.extend(token_changes(text, toks, other, i, first, last))
    return sorted(set(found), key=lambda c: (c.start, c.end, c.kind))


def apply(text, change):
    """The text with the change, on as many lines as before."""
    lines = text[change.start:change.end].count("\n") - change.after.count("\n")
    return text[:change.start] + change.after + "\n" * lines + text[change.end:]
