"""Writes events.tfevents, as TensorBoard's own code writes the metrics of events.jsonl, for
tests/train/test_history.c: the file's version, then one event for each update.

Run it in this folder, with tensorboard installed: python events.py
"""

import json

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

BEGAN = 1_700_000_000.0  # the time of the last line, less its seconds

with open("events.tfevents", "wb") as out, open("events.jsonl", encoding="utf-8") as lines:
    writer = RecordWriter(out)
    writer.write(Event(wall_time=BEGAN, file_version="brain.Event:2").SerializeToString())
    names, time = [], BEGAN
    for line in map(json.loads, lines):
        step = line.pop("step")
        names += [name for name in line if name not in names]
        event = Event(wall_time=BEGAN + line.get("seconds", 0), step=step)
        for name in names:  # in the order of their first lines
            if name in line:
                event.summary.value.add(tag=name, simple_value=float(line[name]))
        writer.write(event.SerializeToString())
