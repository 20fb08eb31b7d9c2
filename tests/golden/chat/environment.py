"""The Jinja2 environment of transformers' chat templates, and Weft's renderer beside it.

Used by the scripts of this folder; needs jinja2 and a build of tests/render_lines.
"""
import functools
import json
import subprocess
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}: a macro of its own that is called in its place."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment(now):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.fromtimestamp(now).strftime(form)
    return env


@functools.lru_cache(maxsize=16)
def compiled(template, now):
    return environment(now).from_string(template)


def render(template, variables, now):
    """{"text": ...} or {"error": ...}."""
    try:
        return {"text": compiled(template, now).render(**variables)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def weft(build, lines):
    """What render_lines makes of the lines, each {"template", "variables", "now"}."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    done = subprocess.run([f"{build}/tests/render_lines"], input=text.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]
