"""Writes task_formats/: the rows of each task of weft eval in every format of data.

    python3 tests/golden/generate/task_formats.py
"""
import csv
import gzip
import io
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

folder = pathlib.Path(__file__).parent / "task_formats"
folder.mkdir(exist_ok=True)
tasks = {
    "exact": [{"prompt": "They lived happily ever", "answer": "after"},
              {"prompt": "Once upon a time there was a", "answer": "king, who had a \"horse\""},
              {"prompt": "The wolf said to the seven little", "answer": "goats"}],
    "choices": [{"prompt": "Once upon a time there was a",
                 "choices": ["king", "telephone", "witch"], "answer": 0},
                {"prompt": "She opened the door and",
                 "choices": [" saw an old woman", " na\u00efve \u2013 caf\u00e9"], "answer": 1}],
    "loss": [{"text": "Once upon a time there was a king who had three sons."},
             {"text": "The fox said to the crow: \"Sing, and I will listen.\"\n"},
             {"text": "They lived happily ever after, and the cat with them, in the mill."}],
}


def table(rows, separator):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(json.dumps(v) if isinstance(v, list) else v for v in row.values())
    return out.getvalue()


for name, rows in tasks.items():
    texts = {"jsonl": "".join(json.dumps(row) + "\n" for row in rows), "json": json.dumps(rows),
             "csv": table(rows, ","), "tsv": table(rows, "\t")}
    for end, text in texts.items():
        (folder / f"{name}.{end}").write_bytes(text.encode())
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(texts["jsonl"].encode(), mtime=0))
    (folder / f"{name}.csv.zst").write_bytes(
        pa.compress(texts["csv"].encode(), "zstd", asbytes=True))
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet", compression="snappy")
(folder / "loss.txt").write_text(
    "".join(row["text"].rstrip("\n") + "\n" for row in tasks["loss"]))
