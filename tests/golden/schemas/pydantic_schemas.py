#!/usr/bin/env python3
"""Writes pydantic.json: schemas that pydantic makes from models, and others in the forms that APIs
take, with instances that Python's jsonschema accepts and refuses. Needs pydantic and jsonschema.

    tests/golden/schemas/pydantic_schemas.py tests/golden/schemas/pydantic.json
"""
import json
import random
import sys
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union
from uuid import UUID

from jsonschema import Draft202012Validator
from pydantic import (AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, IPvAnyAddress, RootModel,
                      SecretStr, TypeAdapter, confloat, conint, conlist, constr)
from typing_extensions import TypedDict


class Color(str, Enum):
    red = "red"
    green = "green"
    blue = "blue"


class Level(IntEnum):
    low = 1
    high = 10


class Person(BaseModel):
    """A person."""

    name: str = Field(description="The full name", examples=["Ada Lovelace"])
    age: conint(ge=0, le=150)
    email: Optional[str] = None


class Address(BaseModel):
    street: str
    city: str = "Berlin"
    zip: constr(pattern=r"^[0-9]{5}$")


class Company(BaseModel):
    name: constr(min_length=1, max_length=40)
    address: Address
    branches: list[Address] = []
    staff: dict[str, Person] = {}


class Choices(BaseModel):
    kind: Literal["a", "b", 3, None]
    only: Literal["one"] = "one"
    color: Color
    level: Level = Level.low
    colors: set[Color] = set()


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    breed: str = "mixed"
    lives: Optional[int] = None


class Bird(BaseModel):
    kind: Literal["bird"]
    wings: bool


class Owner(BaseModel):
    pet: Union[Cat, Dog, Bird] = Field(discriminator="kind")
    others: list[Annotated[Union[Cat, Dog], Field(discriminator="kind")]] = []


class Mixed(BaseModel):
    value: Union[int, str, Person, list[int]]
    maybe: Union[Cat, Dog, None] = None


class Links(BaseModel):
    home: HttpUrl
    any: AnyUrl
    id: UUID
    address: Optional[IPvAnyAddress] = None


class Times(BaseModel):
    at: datetime
    day: date
    clock: time
    span: timedelta


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Chain(BaseModel):
    name: str
    next: Optional["Chain"] = None


class Containers(BaseModel):
    pair: tuple[int, str]
    tags: set[str]
    numbers: frozenset[int] = frozenset()
    few: conlist(float, min_length=1, max_length=3)
    table: dict[str, list[int]]
    anything: Any = None


class Bounds(BaseModel):
    even: conint(multiple_of=2, ge=0, lt=100)
    share: confloat(gt=0, lt=1)
    code: constr(pattern=r"^[A-Z]{3}-\d+$", max_length=12)
    short: constr(min_length=2, max_length=5)
    price: confloat(ge=0, multiple_of=0.01)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: str
    second: Optional[int] = None


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    first: str


class Base(BaseModel):
    id: int
    created: Optional[datetime] = None


class Derived(Base):
    title: str = Field(alias="theTitle")
    note: str = Field(default="", deprecated=True)


class Empty(BaseModel):
    pass


class Formats(BaseModel):
    amount: Decimal
    raw: bytes
    secret: SecretStr
    path: Path
    flag: bool = True


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]
    total: conint(ge=0)


class Wide(BaseModel):
    a1: int
    a2: str
    a3: bool
    a4: float
    a5: Optional[int] = None
    a6: Optional[str] = None
    a7: Optional[bool] = None
    a8: Optional[Color] = None
    a9: Optional[Person] = None
    a10: list[Optional[int]] = []
    zz: int
    aa: int
    a0: int


class Numbers(RootModel[list[int]]):
    pass


@dataclass
class Point:
    x: float
    y: float = 0.0


class Movie(TypedDict, total=False):
    title: str
    year: int


person = Person.model_json_schema()
OTHERS = {
    "openai response_format": {"type": "json_schema",
                               "json_schema": {"name": "person", "strict": True, "schema": person}},
    "openai json_schema": {"name": "person", "strict": True, "schema": person},
    "openai function tool": {"type": "function",
                             "function": {"name": "save", "description": "Saves a person.",
                                          "parameters": person, "strict": True}},
    "openai responses tool": {"type": "function", "name": "save", "parameters": person},
    "tool with input_schema": {"name": "save", "description": "Saves a person.", "input_schema": person},
    "openapi": {"type": "object",
                "properties": {"id": {"type": "integer", "format": "int32"},
                               "name": {"type": "string", "nullable": True, "example": "Ada"},
                               "ratio": {"type": "number", "format": "double"},
                               "phone": {"type": "string", "format": "phone"}},
                "required": ["id", "name"], "x-internal": True},
    "allOf": {"$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}},
                                 "required": ["id"]}},
              "allOf": [{"$ref": "#/$defs/base"},
                        {"properties": {"name": {"type": "string"}}, "required": ["name"]}],
              "properties": {"last": {"type": "boolean"}}},
    "oneOf without discriminator": {
        "oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                  {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]},
}

MODELS = [Person, Company, Choices, Owner, Mixed, Links, Times, Tree, Chain, Containers, Bounds,
          Strict, Loose, Derived, Empty, Formats, Page[Person], Wide, Numbers, Point, Movie]

# ---- instances ------------------------------------------------------------------------------------

STRINGS = {
    "uri": ["https://example.org/a?b=c#d", "http://[::1]:8080/", "mailto:a@b.org"],
    "uuid": ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
    "date-time": ["2024-02-29T23:59:59Z", "1999-01-01T00:00:00.25+05:30"],
    "date": ["2024-02-29"],
    "time": ["08:30:06Z"],
    "duration": ["P1DT2H", "PT36S"],
}
PATTERNS = {r"^[0-9]{5}$": ["12345"], r"^[A-Z]{3}-\d+$": ["ABC-12", "XYZ-1234567"]}
WORDS = ["", "a", "Ada", "x y", "é", "line\nline", "\"quoted\"", "日本"]


def sample_number(schema, integer, draw):
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 1000))
    step = schema.get("multipleOf")
    if step:
        return round(draw.randint(0, int((high - 1) / step)) * step, 2)
    return draw.randint(int(low), int(high)) if integer else round(draw.uniform(low, high), 3)


def sample_string(schema, draw):
    words = PATTERNS.get(schema.get("pattern")) or STRINGS.get(schema.get("format")) or WORDS
    fitting = [w for w in words
               if schema.get("minLength", 0) <= len(w) <= schema.get("maxLength", 1000)]
    return draw.choice(fitting or ["abc"])


def sample_array(root, schema, draw, depth):
    low = schema.get("minItems", 0)
    first = schema.get("prefixItems", [])
    n = len(first) if first else draw.randint(low, schema.get("maxItems", low + 2))
    out = [sample(root, first[i] if i < len(first) else schema.get("items", {}), draw, depth + 1)
           for i in range(n if depth < 4 else low)]
    if schema.get("uniqueItems"):
        out = [x for i, x in enumerate(out) if x not in out[:i]]
    return out


def sample_object(root, schema, draw, depth):
    out = {}
    parts = []
    for keyword in schema:  # in the declared order
        parts += [schema] if keyword == "properties" else schema.get("allOf", []) \
            if keyword == "allOf" else []
    for part in parts:
        for name, of in resolve(root, part).get("properties", {}).items():
            required = name in resolve(root, part).get("required", []) or "const" in of
            if required or (depth < 4 and draw.random() < 0.6):
                out[name] = sample(root, of, draw, depth + 1)
    if isinstance(schema.get("additionalProperties"), dict):
        for name in draw.sample(["k", "key two", ""], draw.randint(0, 2)):
            out[name] = sample(root, schema["additionalProperties"], draw, depth + 1)
    return out


def resolve(root, schema):
    return root["$defs"][schema["$ref"].split("/")[-1]] if "$ref" in schema else schema


def sample(root, schema, draw, depth=0):
    schema = resolve(root, schema)
    if "const" in schema or "enum" in schema:
        return draw.choice(schema.get("enum", [schema.get("const")]))
    for branch in ("anyOf", "oneOf"):
        if branch in schema:
            of = schema[branch]
            return sample(root, of[-1] if depth > 3 else draw.choice(of), draw, depth)
    types = schema.get("type", "object" if "allOf" in schema else "null")
    kind = draw.choice(types) if isinstance(types, list) else types
    if kind == "object":
        return sample_object(root, schema, draw, depth)
    if kind == "array":
        return sample_array(root, schema, draw, depth)
    if kind == "string":
        return sample_string(schema, draw)
    if kind in ("integer", "number"):
        return sample_number(schema, kind == "integer", draw)
    return draw.choice([True, False]) if kind == "boolean" else None


def mutate(value, draw):
    """A value with one change somewhere."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        name = draw.choice(list(value))
        if draw.random() < 0.4:
            return {k: v for k, v in value.items() if k != name}
        return {k: mutate(v, draw) if k == name else v for k, v in value.items()}
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        return [mutate(v, draw) if i == at else v for i, v in enumerate(value)]
    return draw.choice([None, True, 7, -1, 1.5, 1000, "", "text", [], [1], {}, {"a": 1}])


def unwrap(schema):
    for name in ("json_schema", "function", "schema", "parameters", "input_schema"):
        if isinstance(schema.get(name), dict):
            return unwrap(schema[name])
    return schema


def standard(schema):
    """OpenAPI's nullable, for jsonschema."""
    if isinstance(schema, list):
        return [standard(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: standard(v) for k, v in schema.items()}
    if out.get("nullable") is True:
        out["type"] = [out["type"], "null"]
    return out


def case(name, schema, draw):
    inside = unwrap(schema)
    validator = Draft202012Validator(standard(inside), format_checker=Draft202012Validator.FORMAT_CHECKER)
    valid, invalid = [], []
    for _ in range(400):
        value = sample(inside, standard(inside), draw)
        if validator.is_valid(value):
            if value not in valid and len(valid) < 5:
                valid.append(value)
        elif len(valid) < 1:
            sys.exit(f"{name}: the sampler gives {value}")
        other = mutate(value, draw)
        if not validator.is_valid(other) and other not in invalid and len(invalid) < 5:
            invalid.append(other)
    text = [json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in valid + invalid]
    return {"name": name, "schema": schema, "valid": text[:len(valid)],
            "invalid": text[len(valid):]}


def main():
    draw = random.Random(1)
    cases = [case(getattr(m, "__name__", str(m)), TypeAdapter(m).json_schema(), draw)
             for m in MODELS]
    cases += [case(name, schema, draw) for name, schema in OTHERS.items()]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":"))
                                      for c in cases) + "\n]\n")


main()
