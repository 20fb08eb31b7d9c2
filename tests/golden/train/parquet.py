"""Writes parquet/: small Parquet files, and their rows as pyarrow reads them (NAME.jsonl).

    python3 tests/golden/train/parquet.py

pyarrow 26 writes all files but legacy-*.parquet: those have what it does not write (lists of two
levels, repeated fields without an annotation, levels packed by BIT_PACKED), and are written by the few
lines of Thrift below and read by pyarrow. Bytes without a logical type are null in the rows, dates and
times are texts of ISO 8601, and maps with texts as keys are objects.
"""
import datetime
import json
import pathlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

folder = pathlib.Path(__file__).parent / "parquet"
folder.mkdir(exist_ok=True)
PER_SECOND = {"s": 3, "ms": 3, "us": 6, "ns": 9}  # digits of a fraction, as Parquet stores them


# ---- rows -----------------------------------------------------------------------------------------


def is_ignored(t):
    if pa.types.is_struct(t):
        return all(is_ignored(f.type) for f in t)
    if pa.types.is_list(t):
        return is_ignored(t.value_type)
    if pa.types.is_map(t):
        return is_ignored(t.item_type) and is_ignored(t.key_type)
    return pa.types.is_binary(t) or (pa.types.is_fixed_size_binary(t) and not pa.types.is_decimal(t))


def date(days):
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=days)).isoformat()


def time_of_day(n, digits):
    unit = 10**digits
    second, fraction = divmod(n, unit)
    text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return text + (f".{fraction:0{digits}}" if fraction else "")


def value(scalar, t):
    """The JSON text of a value as pyarrow has read it."""
    if is_ignored(t) or not scalar.is_valid:
        return "null"
    if pa.types.is_struct(t):
        return "{" + ", ".join(f"{json.dumps(f.name)}: {value(scalar[f.name], f.type)}" for f in t) + "}"
    if pa.types.is_list(t):
        return "[" + ", ".join(value(x, t.value_type) for x in scalar.values) + "]"
    if pa.types.is_map(t):
        pairs = [(value(x["key"], t.key_type), value(x["value"], t.item_type)) for x in scalar.values]
        if pa.types.is_string(t.key_type):
            return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
        return "[" + ", ".join(f'{{"key": {k}, "value": {v}}}' for k, v in pairs) + "]"
    if pa.types.is_date(t):
        return json.dumps(date(scalar.value))
    if pa.types.is_time(t):
        return json.dumps(time_of_day(scalar.value, PER_SECOND[t.unit]))
    if pa.types.is_timestamp(t):
        digits = PER_SECOND[t.unit]
        days, rest = divmod(scalar.value * (1000 if t.unit == "s" else 1), 86400 * 10**digits)
        return json.dumps(f"{date(days)}T{time_of_day(rest, digits)}{'Z' if t.tz else ''}")
    if pa.types.is_decimal(t):
        return f"{scalar.as_py():f}"
    found = scalar.as_py()
    return json.dumps(float(found) if pa.types.is_floating(t) else found, ensure_ascii=False)


def write_rows(name, path):
    table = pq.read_table(path)
    lines = [
        "{" + ", ".join(f"{json.dumps(f.name)}: {value(table.column(i)[k], f.type)}"
                        for i, f in enumerate(table.schema)) + "}\n" for k in range(table.num_rows)]
    (folder / f"{name}.jsonl").write_text("".join(lines))


def write(name, table, variants, **options):
    """One file for each variant, which differ only in how they store the same rows."""
    for variant, more in variants.items():
        path = folder / f"{name}-{variant}.parquet"
        pq.write_table(table, path, store_schema=False, **options, **more)
        write_rows(name, path)
        rows = (folder / f"{name}.jsonl").read_text()
        if rows != write.seen.setdefault(name, rows):
            raise SystemExit(f"{path}: its rows differ from those of the other files")


write.seen = {}

# ---- types ----------------------------------------------------------------------------------------


def nullable(values):
    """Each value, a null after every second one, and then all in a run, so that every kind of run
    occurs."""
    out = []
    for i, v in enumerate(values):
        out += [v] if i % 2 else [v, None]
    return out + [None] * 9 + [values[0]] * 9


def types_table():
    unit = 10**9
    columns = {
        "bool": (pa.bool_(), [True, False, True, True]),
        "int8": (pa.int8(), [-128, 127, 0, -1]),
        "int32": (pa.int32(), [-2**31, 2**31 - 1, 0, 7]),
        "int64": (pa.int64(), [-2**63, 2**63 - 1, 0, 7]),
        "uint8": (pa.uint8(), [0, 255, 128, 7]),
        "uint32": (pa.uint32(), [0, 2**32 - 1, 2**31, 7]),
        "uint64": (pa.uint64(), [0, 2**64 - 1, 2**63, 7]),
        "half": (pa.float16(), [np.float16(v) for v in (0.1, -65504, 6e-8, -0.0)]),
        "float": (pa.float32(), [0.1, -3.4e38, 1e-45, 1.0]),
        "double": (pa.float64(), [0.1, -1.7e308, 5e-324, 1.0]),
        "string": (pa.string(), ["", "The old king lives in the tower.", "äöü 日本語 🦊", "a\"b\\c\n\u0000d"]),
        "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31),
                               datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]),
        "time_ms": (pa.time32("ms"), [0, 86399999, 1000, 1]),
        "time_ns": (pa.time64("ns"), [0, 86400 * unit - 1, unit, 1]),
        "stamp_ms": (pa.timestamp("ms"), [0, -1, 253402300799999, -62135596800000]),
        "stamp_us": (pa.timestamp("us", "UTC"), [0, -1, 1709210096789012, 1000000]),
        "stamp_ns": (pa.timestamp("ns"), [0, -1, 2**63 - 1, -2**63 + 1]),
        "decimal9": (pa.decimal128(9, 2), [Decimal("0.05"), Decimal("-1234567.89"), Decimal("0.00"), Decimal("12.50")]),
        "decimal38": (pa.decimal128(38, 10), [Decimal("-0.0000000001"), Decimal("9" * 28 + "." + "9" * 10),
                                              Decimal("0E-10"), Decimal("-1.5000000000")]),
        "decimal76": (pa.decimal256(76, 0), [Decimal("9" * 76), Decimal("-" + "9" * 76), Decimal(0), Decimal(-1)]),
        "bytes": (pa.binary(), [b"\xff", b"", b"abc", b"\0"]),
        "fixed": (pa.binary(3), [b"abc", b"\xff\xff\xff", b"\0\0\0", b"xyz"]),
        "nothing": (pa.null(), [None] * 4),
    }
    return pa.table({k: pa.array(nullable(v), t) for k, (t, v) in columns.items()})


# ---- nested ---------------------------------------------------------------------------------------


def nested_table():
    message = pa.struct([pa.field("role", pa.string(), nullable=False), pa.field("content", pa.string()),
                         pa.field("tags", pa.list_(pa.string()))])
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    user = {"role": "user", "content": "Who lives in the tower?", "tags": []}
    answer = {"role": "assistant", "content": "An old king lives there.", "tags": ["short", None, "true"]}
    silent = {"role": "assistant", "content": None, "tags": None}
    rows = {
        "messages": (pa.list_(message),
                     [[user, answer], [], None, [user, None, answer, silent], [silent], [user, answer] * 3]),
        "matrix": (pa.list_(pa.list_(pa.int64())), [[[1, 2], []], None, [], [None, [None, 3]], [[4]], [[]]]),
        "deep": (pa.struct([("a", pa.struct([("b", pa.list_(pa.struct([("c", pa.int32())])))])), ("d", pa.bool_())]),
                 [{"a": {"b": [{"c": 1}, None, {"c": None}]}, "d": True}, None, {"a": None, "d": None},
                  {"a": {"b": None}, "d": False}, {"a": {"b": []}, "d": True}, {"a": {"b": [{"c": 5}]}, "d": None}]),
        "map": (pa.map_(pa.string(), pa.list_(pa.float64())),
                [[("a", [1.5]), ("b", None)], [], None, [("c", [])], [("d", [None, 2.0])], [("e", [0.5])]]),
        "numbers": (pa.map_(pa.int32(), pa.string()), [[(1, "a"), (2, None)], None, [], [(3, "")], [(4, "x")], []]),
        "image": (picture, [{"bytes": b"\x89PNG", "path": "a.png"}, {"bytes": None, "path": None}, None,
                            {"bytes": b"", "path": "b.png"}, None, {"bytes": b"\0", "path": "c.png"}]),
        "audio": (pa.list_(pa.struct([("bytes", pa.binary())])), [[], None, [None], [{"bytes": b"a"}], [], []]),
    }
    columns = [pa.array(v, t) for t, v in rows.values()]
    fields = [pa.field(k, t) for k, (t, _) in rows.items()]
    fields.append(pa.field("needed", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False))
    columns.append(pa.array([[1], [], [2, 3], [], [], [4, 5, 6]], fields[-1].type))
    return pa.table(columns, schema=pa.schema(fields))


# ---- encodings ------------------------------------------------------------------------------------


def encodings_table(n=150):
    random = np.random.default_rng(7)
    words = ["fox", "foxes", "forest", "for", "", "tower", "towers", "ä"]
    whole = np.cumsum(random.integers(-1000, 1000, n))
    return pa.table({
        "i32": pa.array((whole * 1000003 % 2**32 - 2**31).astype(np.int32)),
        "i64": pa.array([None if i % 7 == 3 else int(v) for i, v in enumerate(whole)], pa.int64()),
        "wide": pa.array(random.integers(-2**63, 2**63 - 1, n)),
        "f32": pa.array(random.normal(size=n).astype(np.float32)),
        "f64": pa.array([None if i % 5 == 0 else round(float(v), 6) for i, v in enumerate(random.normal(size=n))]),
        "text": pa.array([words[i % 8] + words[i * 5 % 8] for i in range(n)]),
        "some": pa.array([None if i % 3 else words[i % 8] for i in range(n)]),
        "dec": pa.array([Decimal(int(v)).scaleb(-3) for v in whole], pa.decimal128(20, 3)),
        "flag": pa.array([bool(v) for v in random.integers(0, 2, n)]),
        "same": pa.array([True] * n),
        "list": pa.array([[words[i % 8]] * (i % 3) for i in range(n)]),
    })


def encoded(whole, real, text, fixed, flag):
    return {"use_dictionary": False,
            "column_encoding": {"i32": whole, "i64": whole, "wide": whole, "f32": real, "f64": real, "text": text,
                                "some": text, "dec": fixed, "flag": flag, "same": flag, "list.list.element": text}}


# ---- what pyarrow does not write ------------------------------------------------------------------




def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


class Long(int):
    """An integer of 64 bits; others have 32."""


def thrift(v):
    """The type and the bytes of a value in the compact protocol. A struct is a dictionary by ids."""
    if isinstance(v, int):
        return (6 if isinstance(v, Long) else 5), varint(v << 1 if v >= 0 else (-v << 1) - 1)
    if isinstance(v, bytes):
        return 8, varint(len(v)) + v
    if isinstance(v, list):
        items = [thrift(x) for x in v]
        return 9, bytes([0xf0 | items[0][0]]) + varint(len(v)) + b"".join(data for _, data in items)
    out, last = b"", 0
    for k, x in sorted(v.items()):
        kind, data = thrift(x)
        out += bytes([(k - last) << 4 | kind]) + data
        last = k
    return 12, out + b"\0"


def width_of(most):
    return most.bit_length()


def hybrid(levels, most):
    """One run of packed levels, lowest bit first, after its length."""
    groups = (len(levels) + 7) // 8
    bits = sum(v << i * width_of(most) for i, v in enumerate(levels))
    data = varint(groups << 1 | 1) + bits.to_bytes(groups * width_of(most), "little")
    return len(data).to_bytes(4, "little") + data


def bit_packed(levels, most):
    """The deprecated encoding: highest bit first, without a length."""
    text = "".join(f"{v:0{width_of(most)}b}" for v in levels)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def plain(v):
    if isinstance(v, bytes):
        return len(v).to_bytes(4, "little") + v
    return v.to_bytes(8 if isinstance(v, Long) else 4, "little")


def write_legacy(name, schema, columns, rows, packed):
    """Columns are (path, type, largest repetition level, largest definition level, entries, values)."""
    encode, encoding = (bit_packed, 4) if packed else (hybrid, 3)
    out, chunks = b"PAR1", []
    for path, kind, most_rep, most_def, entries, values in columns:
        body = encode([r for r, _ in entries], most_rep) if most_rep else b""
        body += encode([d for _, d in entries], most_def) if most_def else b""
        body += b"".join(plain(v) for v in values)
        page = thrift({1: 0, 2: len(body), 3: len(body),
                       5: {1: len(entries), 2: 0, 3: encoding, 4: encoding}})[1] + body
        chunks.append({2: Long(len(out)), 3: {
            1: kind, 2: [0, encoding], 3: path, 4: 0, 5: Long(len(entries)), 6: Long(len(page)),
            7: Long(len(page)), 9: Long(len(out))}})
        out += page
    footer = thrift({1: 1, 2: schema, 3: Long(rows), 4: [{1: chunks, 2: Long(len(out)), 3: Long(rows)}]})[1]
    path = folder / f"{name}.parquet"
    path.write_bytes(out + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    if not packed:  # pyarrow takes the bits of BIT_PACKED in the other order than the format says
        write_rows(name.split("-")[0], path)


REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
UTF8, LIST = 0, 3
INT32, INT64, BYTES = 1, 2, 6
legacy_schema = [
    {4: b"schema", 5: 5},
    {3: OPTIONAL, 4: b"two", 5: 1, 6: LIST}, {1: INT32, 3: REPEATED, 4: b"array"},
    {3: OPTIONAL, 4: b"tuple", 5: 1, 6: LIST}, {3: REPEATED, 4: b"tuple_tuple", 5: 1},
    {1: BYTES, 3: REQUIRED, 4: b"x", 6: UTF8},
    {1: INT64, 3: REPEATED, 4: b"bare"},
    {3: OPTIONAL, 4: b"messages", 5: 1, 6: LIST}, {3: REPEATED, 4: b"element", 5: 2},
    {1: BYTES, 3: REQUIRED, 4: b"role", 6: UTF8}, {1: BYTES, 3: OPTIONAL, 4: b"content", 6: UTF8},
    {1: INT32, 3: OPTIONAL, 4: b"number"},
]
legacy_columns = [
    ([b"two", b"array"], INT32, 1, 2, [(0, 2), (1, 2), (0, 1), (0, 0), (0, 2)], [1, 2, 3]),
    ([b"tuple", b"tuple_tuple", b"x"], BYTES, 1, 2, [(0, 2), (1, 2), (0, 0), (0, 1), (0, 2)], [b"p", b"q", b"r"]),
    ([b"bare"], INT64, 1, 1, [(0, 1), (1, 1), (0, 0), (0, 1), (0, 1)], [Long(10), Long(20), Long(30), Long(40)]),
    ([b"messages", b"element", b"role"], BYTES, 1, 2, [(0, 2), (1, 2), (0, 1), (0, 0), (0, 2)],
     [b"user", b"assistant", b"user"]),
    ([b"messages", b"element", b"content"], BYTES, 1, 3, [(0, 3), (1, 2), (0, 1), (0, 0), (0, 3)], [b"Who?", b"And?"]),
    ([b"number"], INT32, 0, 1, [(0, 1), (0, 0), (0, 1), (0, 0)], [5, 7]),
]

# ---- all files ------------------------------------------------------------------------------------

small = {"data_page_size": 40, "write_batch_size": 5}
write("types", types_table(), {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionary": {"compression": "snappy"},
    "zstd-2": {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
    "split": {"compression": "gzip", "use_dictionary": False, "use_byte_stream_split": ["half", "float", "double", "int32", "int64", "fixed", "decimal9", "decimal38"]},
})
int96 = pa.table({"stamp": pa.array([0, -1, 1709210096789012345, None], pa.timestamp("ns"))})
write("int96", int96, {"snappy": {"use_deprecated_int96_timestamps": True}})
write("nested", nested_table(), {
    "plain": {"use_dictionary": False, "compression": "none", **small},
    "gzip": {"compression": "gzip", "use_compliant_nested_type": False},
    "snappy-2": {"compression": "snappy", "data_page_version": "2.0", "row_group_size": 2},
    "zstd-2": {"compression": "zstd", "data_page_version": "2.0", **small},
})
delta = encoded("DELTA_BINARY_PACKED", "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE")
lengths = encoded("BYTE_STREAM_SPLIT", "BYTE_STREAM_SPLIT", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT", "RLE")
write("encodings", encodings_table(), {
    "dictionary": {"compression": "zstd", "row_group_size": 61, "write_statistics": False},
    "fallback": {"compression": "gzip", "dictionary_pagesize_limit": 40, "data_page_size": 200, "write_batch_size": 16},
    "delta": {"compression": "snappy", **delta},
    "delta-2": {"compression": "none", "data_page_version": "2.0", "data_page_size": 300, "write_batch_size": 20, **delta},
    "lengths": {"compression": "zstd", **lengths},
    "lengths-2": {"compression": "gzip", "data_page_version": "2.0", "write_page_checksum": True, **lengths},
    "pages-2": {"compression": "snappy", "data_page_version": "2.0", "data_page_size": 100, "write_batch_size": 7},
})
write_legacy("legacy-hybrid", legacy_schema, legacy_columns, 4, packed=False)
write_legacy("legacy-packed", legacy_schema, legacy_columns, 4, packed=True)
for method in ("brotli", "lz4"):
    pq.write_table(pa.table({"text": ["A fox.", "A crow."] * 9}), folder / f"refused-{method}.parquet",
                   compression=method, store_schema=False)
texts = [b"The fox said: I will wait.", None, b"\xff\xfe", "The crow said: As you like, älter Fuchs.".encode()]
pq.write_table(pa.table({"text": pa.Array.from_buffers(  # without pyarrow's check of UTF-8
    pa.string(), 4, pa.array(texts, pa.binary()).buffers())}), folder / "texts.parquet", compression="none",
    store_schema=False, use_dictionary=False)
