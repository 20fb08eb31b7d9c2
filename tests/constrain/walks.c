/* tests/constrain/walks.c -- documents drawn at random under a constraint, and small vocabularies.
 */
#include "tests/constrain/walks.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/memory.h"

uint64_t walk_random(uint64_t n)
{
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % n;
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* The byte-level spelling of a byte: printable ones are themselves, the others U+0100 and up. */
static int spelling(unsigned char byte, char *out)
{
    unsigned code = byte, others = 0;
    for (unsigned b = 0; b <= byte; b++) {
        const bool itself = (b > ' ' && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        if (b == byte && !itself)
            code = 0x100 + others;
        others += !itself;
    }
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

static void add_token(json_object *vocabulary, const char *bytes, size_t n)
{
    char text[64];
    int length = 0;
    for (size_t i = 0; i < n; i++)
        length += spelling((unsigned char)bytes[i], text + length);
    text[length] = '\0';
    if (!json_object_object_get_ex(vocabulary, text, NULL))
        json_object_object_add(vocabulary, text,
                               json_object_new_int(json_object_object_length(vocabulary)));
}

static void add_pieces(json_object *vocabulary)
{
    static const char *const pieces[] = {
        "{\"",   "\":",  "\",",  "\"}",   "}}",    "]]", "\":\"", ", \"", "true",
        "false", "null", "[1,",  " }",    "\\u00", "[[", "{}",    "[]",   "\"\"",
        "\":{",  "\":[", "],\"", "},\"",  "1.5",   "12", "-1",    "\n  ", "\n\n",
        "ab",    "a\":", "\"a",  "\"b\"", "kind",  "e5", "\xC3",  "\xA9", "\xF0\x9F",
        ".0",    "00",   "0.",   "\"},{", "]}",    ",1", "\\\"",  "\\\\"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        add_token(vocabulary, pieces[i], strlen(pieces[i]));
}

static void add_random(json_object *vocabulary)
{
    static const char letters[] = "{}[]\",:0123456789abcdtruefalsnik \n-.\\u";
    for (int i = 0; i < 300; i++) {
        char bytes[4];
        const size_t n = 2 + walk_random(3);
        for (size_t k = 0; k < n; k++)
            bytes[k] = letters[walk_random(sizeof letters - 1)];
        add_token(vocabulary, bytes, n);
    }
}

weft_tokenizer *walk_vocabulary(int which)
{
    json_object *vocabulary = json_object_new_object();
    for (int b = 0; b < 256; b++)
        add_token(vocabulary, (const char[]){(char)b}, 1);
    if (which == 1)
        add_pieces(vocabulary);
    if (which == 2)
        add_random(vocabulary);
    char *text = weft_format("{\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":[]},"
                             "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
                             "\"decoder\":{\"type\":\"ByteLevel\"}}",
                             json_object_to_json_string_ext(vocabulary, JSON_C_TO_STRING_PLAIN));
    weft_tokenizer *tokenizer = NULL;
    CHECK_OK(weft_tokenizer_parse(text, strlen(text), NULL, 0, "vocabulary", &tokenizer));
    weft_free(text);
    json_object_put(vocabulary);
    return tokenizer;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* One of the allowed tokens; -1: none, or the end where that is allowed and drawn. */
static int32_t draw(const bool *allowed, int32_t n, bool complete)
{
    int32_t count = 0, id = -1;
    for (int32_t i = 0; i < n; i++)
        count += allowed[i];
    if (count == 0 || (complete && walk_random(8) == 0))
        return -1;
    int32_t nth = (int32_t)walk_random((uint64_t)count);
    for (int32_t i = 0; i < n && id < 0; i++)
        if (allowed[i] && nth-- == 0)
            id = i;
    return id;
}

char *walk(weft_constraint *c, const weft_tokenizer *tokenizer, int64_t budget)
{
    const int32_t n = weft_tokenizer_vocab_size(tokenizer);
    bool *allowed = malloc((size_t)n);
    int32_t *ids = malloc(((size_t)budget + 1) * sizeof *ids);
    size_t count = 0;
    bool ended = false;
    CHECK_OK(weft_constraint_reset(c));
    for (int64_t left = budget; left > 0 && !ended; left--) {
        bool complete = false;
        if (!CHECK_OK(weft_constraint_mask(c, left, allowed, n, &complete)))
            break;
        const int32_t id = draw(allowed, n, complete);
        ended = id < 0;
        if (!ended && CHECK_OK(weft_constraint_accept(c, id)))
            ids[count++] = id;
    }
    char *text = NULL, *out = NULL;
    if (CHECK_OK(weft_tokenizer_decode(tokenizer, ids, count, 0, &text, NULL)) &&
        weft_constraint_complete(c))
        out = strdup(text);
    weft_free(text);
    free(allowed);
    free(ids);
    return out;
}
