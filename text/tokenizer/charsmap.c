/* text/tokenizer/charsmap.c -- SentencePiece's compiled normalization rules: decoding base64,
 * reading the trie, and applying the rules by grapheme cluster. */
#include "text/tokenizer/charsmap.h"

#include <string.h>

#include <utf8proc.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "weft/memory.h"

/* ---- loading -------------------------------------------------------------------------------- */

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes padded standard base64; false for any other text. `out` must be large enough. */
static bool decode_base64(const char *text, size_t length, unsigned char *out, size_t *size)
{
    *size = 0;
    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        const int padding = i + 4 < length       ? 0
                            : text[i + 3] != '=' ? 0
                            : text[i + 2] != '=' ? 1
                                                 : 2;
        uint32_t bits = 0;
        for (int k = 0; k < 4; k++) {
            const int digit = k >= 4 - padding ? 0 : base64_digit(text[i + (size_t)k]);
            if (digit < 0)
                return false;
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int k = 0; k < 3 - padding; k++)
            out[(*size)++] = (unsigned char)(bits >> (16 - 8 * k));
    }
    return true;
}

static uint32_t read_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Reads the trie and the replacements from the decoded bytes. */
static weft_status read_parts(const weft__json *at, const unsigned char *bytes, size_t size,
                              text_charsmap *map)
{
    const size_t trie = size >= 4 ? read_u32(bytes) : 0;
    if (trie < 4 || trie % 4 != 0 || trie > size - 4)
        return weft__json_fail(
            at, WEFT_INVALID, "precompiled_charsmap: a trie of %zu bytes in %zu bytes", trie, size);
    map->unit_count = trie / 4;
    map->text_bytes = size - 4 - trie;
    map->units = weft_malloc(trie);
    map->texts = weft_malloc(map->text_bytes + 1);
    if (map->units == NULL || map->texts == NULL)
        return weft__out_of_memory(at->name, "precompiled_charsmap");
    for (size_t i = 0; i < map->unit_count; i++)
        map->units[i] = read_u32(bytes + 4 + 4 * i);
    memcpy(map->texts, bytes + 4 + trie, map->text_bytes);
    map->texts[map->text_bytes] = '\0';
    const size_t valid = weft__utf8_valid(map->texts, map->text_bytes);
    if (valid < map->text_bytes)
        return weft__json_fail(at, WEFT_INVALID,
                               "precompiled_charsmap: the replacements are not UTF-8 at byte %zu",
                               valid);
    return WEFT_OK;
}

weft_status weft__charsmap_load(const weft__json *at, text_charsmap **out)
{
    weft__json member;
    const char *text = NULL;
    size_t length = 0, size = 0;
    *out = NULL;
    weft_status status = weft__json_get(at, "precompiled_charsmap", &member);
    if (!status)
        status = weft__json_as_string(&member, &text, &length);
    if (status)
        return status;
    unsigned char *bytes = weft_malloc(length / 4 * 3 + 1);
    text_charsmap *map = weft_calloc(1, sizeof *map);
    if (bytes == NULL || map == NULL)
        status = weft__out_of_memory(at->name, "precompiled_charsmap");
    else if (!decode_base64(text, length, bytes, &size))
        status = weft__json_fail(&member, WEFT_INVALID, "expected base64");
    else
        status = read_parts(at, bytes, size, map);
    weft_free(bytes);
    if (status)
        weft__charsmap_free(map);
    else
        *out = map;
    return status;
}

void weft__charsmap_free(text_charsmap *map)
{
    if (map == NULL)
        return;
    weft_free(map->units);
    weft_free(map->texts);
    weft_free(map);
}

/* ---- the trie ------------------------------------------------------------------------------- */

/* Fields of a unit: the byte that leads to it, with the top bit set in units that hold a value; the
 * offset of its children; whether it has a value. */
static uint32_t label(uint32_t unit)
{
    return unit & (UINT32_C(1) << 31 | 0xFF);
}

static uint32_t offset(uint32_t unit)
{
    return unit >> 10 << ((unit & UINT32_C(1) << 9) >> 6);
}

static bool has_value(uint32_t unit)
{
    return unit >> 8 & 1;
}

/* The replacement at an offset; false if it is outside of the replacements or within a character.
 */
static bool replacement_at(const text_charsmap *map, uint32_t value, text_string *out)
{
    const size_t start = value & ~(UINT32_C(1) << 31);
    if (start > map->text_bytes || ((unsigned char)map->texts[start] & 0xC0) == 0x80)
        return false;
    *out = (text_string){map->texts + start, strlen(map->texts + start)};
    return true;
}

/* The replacement for the shortest prefix of the text that has one. */
static bool find_rule(const text_charsmap *map, const char *text, size_t length, text_string *out)
{
    size_t at = offset(map->units[0]);
    for (size_t i = 0; i < length && text[i] != '\0'; i++) {
        const uint32_t byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= map->unit_count || label(map->units[at]) != byte)
            return false;
        const uint32_t unit = map->units[at];
        at ^= offset(unit);
        if (has_value(unit))
            return at < map->unit_count && replacement_at(map, map->units[at], out);
    }
    return false;
}

/* ---- applying ------------------------------------------------------------------------------- */

/* The end of the extended grapheme cluster that starts at `start`. */
static size_t cluster_end(const char *text, size_t length, size_t start)
{
    int size = weft__utf8_step(text + start, length - start);
    int32_t before = (int32_t)weft__utf8_decode(text + start, size), state = 0;
    size_t end = start + (size_t)size;
    while (end < length) {
        size = weft__utf8_step(text + end, length - end);
        const int32_t code = (int32_t)weft__utf8_decode(text + end, size);
        if (utf8proc_grapheme_break_stateful(before, code, &state))
            break;
        before = code;
        end += (size_t)size;
    }
    return end;
}

weft_status weft__charsmap_apply(const text_charsmap *map, const char *text, size_t length,
                                 size_t limit, text_buffer *out)
{
    enum { SHORT = 6 };
    weft_status status = WEFT_OK;
    text_string found;
    for (size_t i = 0; i < length && !status && out->length <= limit;) {
        const size_t end = cluster_end(text, length, i);
        if (end - i < SHORT && find_rule(map, text + i, end - i, &found)) {
            status = weft__bytes_append(out, found.text, found.length);
            i = end;
        }
        while (i < end && !status) {
            const size_t size = (size_t)weft__utf8_step(text + i, end - i);
            if (!find_rule(map, text + i, size, &found))
                found = (text_string){text + i, size};
            status = weft__bytes_append(out, found.text, found.length);
            i += size;
        }
    }
    return status;
}
