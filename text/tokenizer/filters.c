/* text/tokenizer/filters.c -- the normalizers that process one character at a time: BertNormalizer
 * (Devlin et al. 2018, tokenization.py), StripAccents, Nmt, Lowercase. */
#include "text/tokenizer/filters.h"

#include <utf8proc.h>

#include "core/io/utf8.h"
#include "text/tokenizer/categories.h"
#include "text/tokenizer/normalize.h"

/* Maps a character: writes the result to `out` (room for 4 bytes with a space on both sides) and
 * returns its size; 0: removed. */
typedef int filter(uint32_t code, char *out);

static weft_status apply(filter *f, const char *text, size_t length, text_buffer *out)
{
    weft_status status = weft__bytes_reserve(out, length);
    for (size_t i = 0; i < length && !status;) {
        const int size = weft__utf8_step(text + i, length - i);
        char made[8];
        const int n = f(weft__utf8_decode(text + i, size), made);
        status = weft__bytes_append(out, made, (size_t)n);
        i += (size_t)size;
    }
    return status;
}

/* ---- Lowercase ------------------------------------------------------------------------------ */

/* Capital letters of Unicode 16 and 17, which utf8proc may not know yet, and the offsets of their
 * lower-case letters. */
static const struct {
    uint32_t first, last;
    int32_t distance;
} newer_capitals[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

static uint32_t lower(uint32_t code)
{
    for (size_t i = 0; code >= 0x1C89 && i < sizeof newer_capitals / sizeof *newer_capitals; i++) {
        if (code >= newer_capitals[i].first && code <= newer_capitals[i].last)
            return (uint32_t)((int32_t)code + newer_capitals[i].distance);
    }
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

/* Maps each character separately, as the reference does: a final sigma is not special. */
static int to_lower(uint32_t code, char *out)
{
    if (code != 0x130)
        return weft__utf8_encode(lower(code), out);
    out[0] = 'i'; /* and U+0307 */
    return 1 + weft__utf8_encode(0x307, out + 1);
}

weft_status weft__lowercase(const char *text, size_t length, text_buffer *out)
{
    return apply(to_lower, text, length, out);
}

/* ---- StripAccents, Nmt ---------------------------------------------------------------------- */

static int without_mark(uint32_t code, char *out)
{
    return weft__is_mark(code) ? 0 : weft__utf8_encode(code, out);
}

weft_status weft__strip_accents(const char *text, size_t length, text_buffer *out)
{
    return apply(without_mark, text, length, out);
}

static int nmt(uint32_t code, char *out)
{
    if ((code >= 0x1 && code <= 0x8) || code == 0xB || (code >= 0xE && code <= 0x1F) ||
        code == 0x7F || code == 0x8F || code == 0x9F)
        return 0;
    const bool space = code == 0x9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                       (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                       code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    return weft__utf8_encode(space ? ' ' : code, out);
}

weft_status weft__normalize_nmt(const char *text, size_t length, text_buffer *out)
{
    return apply(nmt, text, length, out);
}

/* ---- BertNormalizer ------------------------------------------------------------------------- */

static int clean(uint32_t code, char *out)
{
    if (weft__is_control(code))
        return 0;
    return weft__utf8_encode(weft__is_white_space(code) ? ' ' : code, out);
}

static int apart(uint32_t code, char *out)
{
    if (!weft__is_chinese(code))
        return weft__utf8_encode(code, out);
    out[0] = ' ';
    const int size = 1 + weft__utf8_encode(code, out + 1);
    out[size] = ' ';
    return size + 1;
}

static int without_nonspacing(uint32_t code, char *out)
{
    return weft__is_nonspacing_mark(code) ? 0 : weft__utf8_encode(code, out);
}

static weft_status decompose(const char *text, size_t length, text_buffer *out)
{
    return weft__normalize_unicode(text, length, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, out);
}

static weft_status make_clean(const char *text, size_t length, text_buffer *out)
{
    return apply(clean, text, length, out);
}

static weft_status set_apart(const char *text, size_t length, text_buffer *out)
{
    return apply(apart, text, length, out);
}

static weft_status drop_nonspacing(const char *text, size_t length, text_buffer *out)
{
    return apply(without_nonspacing, text, length, out);
}

weft_status weft__normalize_bert(const bert_options *options, const char *text, size_t length,
                                 text_buffer *out)
{
    const struct {
        bool wanted;
        weft_status (*run)(const char *text, size_t length, text_buffer *out);
    } parts[] = {{options->clean, make_clean},
                 {options->chinese, set_apart},
                 {options->accents, decompose},
                 {options->accents, drop_nonspacing},
                 {options->lowercase, weft__lowercase}};
    text_buffer work[2] = {{0}};
    int turn = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status && length > 0; i++) {
        if (!parts[i].wanted)
            continue;
        text_buffer *next = &work[turn];
        turn ^= 1;
        next->length = 0;
        status = parts[i].run(text, length, next);
        text = next->data;
        length = next->length;
    }
    if (!status)
        status = weft__bytes_append(out, text, length);
    weft__bytes_release(&work[0]);
    weft__bytes_release(&work[1]);
    return status;
}
