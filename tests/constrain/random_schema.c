/* tests/constrain/random_schema.c -- random schemas, and random values that may match them. */
#include "tests/constrain/random_schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/constrain/walks.h"

static int below(int n)
{
    return (int)walk_random((uint64_t)n);
}

static const char *const names[] = {"a", "b", "ab", "", "kind"};

static void put_schema(FILE *out, int depth);

static void put_literal(FILE *out)
{
    static const char *const literals[] = {"1",    "2",      "-3",        "2.5", "\"a\"", "\"b\"",
                                           "null", "true",   "false",     "[]",  "[1]",   "{}",
                                           "\"\"", "\"ab\"", "{\"a\":1}", "10"};
    fputs(literals[below(16)], out);
}

static void put_number(FILE *out)
{
    static const char *const steps[] = {"2", "0.5", "3", "1e1", "0.025"};
    const int low = below(12) - 6;
    fprintf(out, "{\"type\":\"%s\"", below(2) ? "integer" : "number");
    if (below(2))
        fprintf(out, ",\"%s\":%d", below(2) ? "minimum" : "exclusiveMinimum", low);
    if (below(2))
        fprintf(out, ",\"%s\":%d", below(2) ? "maximum" : "exclusiveMaximum", low + below(9));
    if (below(4) == 0)
        fprintf(out, ",\"multipleOf\":%s", steps[below(5)]);
    fputs("}", out);
}

static void put_string(FILE *out)
{
    static const char *const patterns[] = {"^a", "b$", "^[ab]{1,3}$", "^(on|off)$", "[^a]"};
    static const char *const formats[] = {"date", "ipv4", "uuid"};
    fputs("{\"type\":\"string\"", out);
    if (below(3) == 0)
        fprintf(out, ",\"pattern\":\"%s\"", patterns[below(5)]);
    if (below(3) == 0)
        fprintf(out, ",\"minLength\":%d", below(4));
    if (below(3) == 0)
        fprintf(out, ",\"maxLength\":%d", below(5));
    else if (below(6) == 0)
        fprintf(out, ",\"format\":\"%s\"", formats[below(3)]);
    fputs("}", out);
}

static void put_list(FILE *out, int n, int depth)
{
    fputs("[", out);
    for (int i = 0; i < n; i++) {
        fputs(i ? "," : "", out);
        put_schema(out, depth - 1);
    }
    fputs("]", out);
}

static void put_array(FILE *out, int depth)
{
    fputs("{\"type\":\"array\"", out);
    if (below(4)) {
        fputs(",\"items\":", out);
        put_schema(out, depth - 1);
    }
    if (below(4) == 0) {
        fputs(",\"prefixItems\":", out);
        put_list(out, 1 + below(2), depth);
    }
    if (below(2))
        fprintf(out, ",\"minItems\":%d", below(3));
    if (below(2))
        fprintf(out, ",\"maxItems\":%d", below(4));
    if (below(4) == 0) {
        fputs(",\"contains\":", out);
        put_schema(out, depth - 1);
        if (below(2))
            fprintf(out, ",\"minContains\":%d", below(3));
        if (below(3) == 0)
            fprintf(out, ",\"maxContains\":%d", below(3));
    }
    fputs("}", out);
}

/* Distinct elements out of a few. */
static void put_set(FILE *out)
{
    fputs("{\"type\":\"array\",\"uniqueItems\":true,\"items\":", out);
    if (below(3) == 0) {
        fputs(below(2) ? "{\"type\":[\"boolean\",\"null\"]}"
                       : "{\"type\":\"integer\",\"minimum\":-1,\"exclusiveMaximum\":4}",
              out);
    } else {
        fputs("{\"enum\":[", out);
        for (int i = 0, n = 1 + below(5); i < n; i++) {
            fputs(i ? "," : "", out);
            put_literal(out);
        }
        fputs("]}", out);
    }
    if (below(2))
        fprintf(out, ",\"minItems\":%d", below(4));
    if (below(4) == 0)
        fprintf(out, ",\"maxItems\":%d", 1 + below(3));
    fputs("}", out);
}

static void put_properties(FILE *out, int depth)
{
    const int first = below(5), n = 1 + below(3);
    fputs(",\"properties\":{", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\"%s\":", i ? "," : "", names[(first + i) % 5]);
        put_schema(out, depth - 1);
    }
    fputs("}", out);
}

static void put_patterns(FILE *out, int depth)
{
    static const char *const patterns[] = {"^a", "b", "^[a-c]$", "^x[0-9]$", "^(ab|cd)?$"};
    const int first = below(5), n = 1 + below(2);
    fputs(",\"patternProperties\":{", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\"%s\":", i ? "," : "", patterns[(first + i) % 5]);
        put_schema(out, depth - 1);
    }
    fputs("}", out);
}

static void put_object(FILE *out, int depth)
{
    static const char *const keys[] = {"{\"pattern\":\"^[abc]+$\"}", "{\"maxLength\":2}",
                                       "{\"enum\":[\"a\",\"kind\",\"z\"]}", "{\"minLength\":1}",
                                       "{\"pattern\":\"^[ab]{1,2}$\",\"minLength\":2}"};
    fputs(below(4) ? "{\"type\":\"object\"" : "{\"title\":\"t\"", out);
    if (below(4))
        put_properties(out, depth);
    if (below(3) == 0)
        fprintf(out, ",\"required\":[\"%s\"]", names[below(5)]);
    if (below(3) == 0)
        fputs(",\"additionalProperties\":false", out);
    else if (below(3) == 0) {
        fputs(",\"additionalProperties\":", out);
        put_schema(out, depth - 1);
    }
    if (below(3) == 0)
        fprintf(out, ",\"minProperties\":%d", below(4));
    if (below(4) == 0)
        fprintf(out, ",\"maxProperties\":%d", below(4));
    if (below(4) == 0)
        put_patterns(out, depth);
    if (below(8) == 0)
        fprintf(out, ",\"propertyNames\":%s", keys[below(5)]);
    if (below(6) == 0)
        fprintf(out, ",\"dependentRequired\":{\"%s\":[\"%s\"]}", names[below(5)], names[below(5)]);
    if (below(6) == 0) {
        fprintf(out, ",\"dependentSchemas\":{\"%s\":", names[below(5)]);
        put_schema(out, depth - 1);
        fputs("}", out);
    }
    fputs("}", out);
}

static void put_combination(FILE *out, int depth)
{
    static const char *const keywords[] = {"anyOf", "oneOf", "oneOf", "allOf"};
    const int kind = below(7);
    if (kind < 4) {
        fprintf(out, "{\"%s\":", keywords[kind]);
        put_list(out, 2 + below(2), depth);
    } else if (kind < 6) {
        fputs("{\"not\":", out);
        put_schema(out, depth - 1);
    } else {
        fputs("{\"if\":", out);
        put_schema(out, depth - 1);
        fputs(",\"then\":", out);
        put_schema(out, depth - 1);
        if (below(2)) {
            fputs(",\"else\":", out);
            put_schema(out, depth - 1);
        }
    }
    fputs("}", out);
}

static void put_schema(FILE *out, int depth)
{
    static const char *const leaves[] = {"{\"type\":\"boolean\"}",
                                         "{\"type\":\"null\"}",
                                         "{\"type\":[\"integer\",\"string\"]}",
                                         "true",
                                         "{\"$ref\":\"#\"}",
                                         "{\"$ref\":\"#/$defs/x\"}"};
    const int kind = below(depth > 0 ? 15 : 7);
    if (kind == 14 && below(3) == 0) {
        put_set(out);
    } else if (kind < 2) {
        fputs(leaves[below(6)], out);
    } else if (kind == 2) {
        put_number(out);
    } else if (kind == 3) {
        put_string(out);
    } else if (kind < 7) {
        fputs(kind == 4 ? "{\"const\":" : "{\"enum\":[", out);
        put_literal(out);
        if (kind > 4) {
            fputs(",", out);
            put_literal(out);
        }
        fputs(kind == 4 ? "}" : "]}", out);
    } else if (kind == 7) {
        put_array(out, depth);
    } else if (kind < 11 || kind == 14) {
        put_object(out, depth);
    } else {
        put_combination(out, depth);
    }
}

char *random_schema(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fputs("{\"$defs\":{\"x\":", out);
    put_schema(out, 2);
    fputs("},\"allOf\":[", out);
    put_schema(out, 3);
    fputs("]}", out);
    fclose(out);
    return text;
}

static void put_value(FILE *out, int depth)
{
    const int kind = below(depth > 0 ? 6 : 3), n = below(4), first = below(5);
    if (kind < 2) {
        put_literal(out);
    } else if (kind == 2) {
        fprintf(out, "%d%s", below(14) - 7, below(3) ? "" : ".5");
    } else if (kind < 4) {
        fputs("[", out);
        for (int i = 0; i < n; i++) {
            fputs(i ? "," : "", out);
            put_value(out, depth - 1);
        }
        fputs("]", out);
    } else {
        fputs("{", out);
        for (int i = 0; i < n; i++) {
            fprintf(out, "%s\"%s\":", i ? "," : "", names[(first + i) % 5]);
            put_value(out, depth - 1);
        }
        fputs("}", out);
    }
}

char *random_value(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    put_value(out, 2);
    fclose(out);
    return text;
}
