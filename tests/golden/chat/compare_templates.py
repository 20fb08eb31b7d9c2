"""compare_templates.py BUILD FILE...: real chat templates, each over 30 conversations and 6 sets of options, by Jinja2
and by Weft. A FILE is a .jinja or a tokenizer_config.json. Prints what differs; fails when anything does.

Templates of third parties are not in this repository: this is run by hand.
"""
import json
import sys

from conversations import OPTIONS, TALKS, prepared
from environment import render, weft

NOW = 1700000000


def source(path):
    text = open(path, encoding="utf-8", newline="").read()
    if path.endswith(".jinja"):
        return text, {"bos_token": "<s>", "eos_token": "</s>"}
    config = json.loads(text)
    tokens = {k: v if isinstance(v, str) else v["content"] for k, v in config.items() if k.endswith("_token") and
              isinstance(v, (str, dict))}
    return config.get("chat_template"), tokens


def main():
    build, files = sys.argv[1], sys.argv[2:]
    differ = total = errors = 0
    for path in files:
        template, tokens = source(path)
        if template is None:
            print(f"{path}: has no template")
            continue
        lines, expected = [], []
        for talk in TALKS:
            for options in OPTIONS:
                variables = {"messages": prepared(talk), "tools": None, "documents": None, **tokens, **options}
                lines.append({"template": template, "variables": variables, "now": NOW})
                expected.append(render(template, json.loads(json.dumps(variables)), NOW))
        bad = 0
        for line, want, got in zip(lines, expected, weft(build, lines)):
            total += 1
            errors += "error" in want
            if want.get("text") != got.get("text"):
                bad += 1
                if bad <= 2:
                    print(f"--- {path}\n{json.dumps(line['variables']['messages'])[:600]}\nwant {want}\ngot  {got}")
        differ += bad
        print(f"{path}: {len(lines)} renders, {bad} differ")
    print(f"{total} renders ({errors} of them errors in both unless listed), {differ} differ")
    sys.exit(differ > 0)


main()
