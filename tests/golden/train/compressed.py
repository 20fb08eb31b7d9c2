"""Writes compressed/: the same three rows in compressed files of each format.

    python3 tests/golden/train/compressed.py

The JSON lines have two members of gzip, or two frames of Zstandard, which pyarrow writes.
"""
import gzip
import json
import pathlib

import pyarrow as pa

folder = pathlib.Path(__file__).parent / "compressed"
folder.mkdir(exist_ok=True)
rows = [{"prompt": "Who lives in the tower?", "completion": " An old king."},
        {"prompt": "Who lives in the mill?", "completion": " A miller and his cat."},
        {"prompt": "Who lives in the forest?", "completion": " A fox."}]
lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
table = "prompt,completion\n" + "".join(f"{r['prompt']},{r['completion']}\n" for r in rows)


def pack(name, *parts):
    for end, method in ((".gz", lambda data: gzip.compress(data, mtime=0)),
                        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True))):
        (folder / (name + end)).write_bytes(b"".join(method(part) for part in parts))


pack("rows.jsonl", b"\xef\xbb\xbf" + lines[:100], lines[100:])
pack("rows.json", json.dumps(rows).encode())
pack("rows.csv", table.encode())
pack("rows.txt", b"An old king lives in the tower.")
