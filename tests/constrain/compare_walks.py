#!/usr/bin/env python3
"""Validates what test_walks generated with Python's jsonschema:

    WEFT_TEST_WALKS=2000 WEFT_TEST_WALKS_FILE=walks.jsonl build/tests/test_walks
    tests/constrain/compare_walks.py walks.jsonl
"""
import json
import sys
from fractions import Fraction

from jsonschema import Draft202012Validator, ValidationError, validators


def multiple_of(validator, step, value, _schema):
    """multipleOf of decimals: jsonschema's own divides in binary, where 4.3 is none of 0.025."""
    if not validator.is_type(value, "number"):
        return
    if (Fraction(str(value)) / Fraction(str(step))).denominator != 1:
        yield ValidationError(f"{value} is no multiple of {step}")


VALIDATOR = validators.extend(Draft202012Validator, {"multipleOf": multiple_of})


def main(path):
    """Prints each document that jsonschema refuses, and how many there are."""
    refused = count = 0
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            pair = json.loads(line)
            validator = VALIDATOR(pair["schema"], format_checker=Draft202012Validator.FORMAT_CHECKER)
            count += 1
            for error in validator.iter_errors(pair["document"]):
                refused += 1
                print(f"{line.strip()}: {error.message}")
                break
    print(f"{count} documents, {refused} refused")
    return refused != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
