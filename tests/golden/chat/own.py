"""own.py: own.jinja over 30 conversations with 6 sets of options, as Jinja2 renders it, written to own.json."""
import json

from conversations import OPTIONS, TALKS, prepared
from environment import render

NOW = 1700000000


def main():
    source = open("own.jinja", encoding="utf-8").read()
    cases = []
    for i, talk in enumerate(TALKS):
        for k, options in enumerate(OPTIONS):
            variables = {"messages": prepared(talk), "tools": None, "documents": None, "bos_token": "<s>", **options}
            got = render(source, json.loads(json.dumps(variables)), NOW)
            print(i, k, got.get("error", ""))
            cases.append([i, k, got.get("text")])
    with open("own.json", "w", encoding="utf-8") as file:
        json.dump({"talks": TALKS, "options": OPTIONS, "cases": cases}, file, ensure_ascii=False, indent=0)
        file.write("\n")


main()
