/* text/tokenizer/cuts.c -- the pairs of adjacent characters in a vocabulary, as bits. */
#include "text/tokenizer/cuts.h"

#include "core/io/utf8.h"
#include "weft/memory.h"

enum { PAIR_BITS = 20 };

struct text_cuts {
    uint64_t ascii[128 * 128 / 64];
    uint64_t others[(1 << PAIR_BITS) / 64];
};

static uint32_t bit_of(uint32_t left, uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 21 | right;
    return (uint32_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> (64 - PAIR_BITS));
}

static bool are_joined(const text_cuts *cuts, uint32_t left, uint32_t right)
{
    if ((left | right) < 128) {
        const uint32_t bit = left * 128 + right;
        return cuts->ascii[bit / 64] >> bit % 64 & 1;
    }
    const uint32_t bit = bit_of(left, right);
    return cuts->others[bit / 64] >> bit % 64 & 1;
}

static void join(text_cuts *cuts, uint32_t left, uint32_t right)
{
    const bool ascii = (left | right) < 128;
    const uint32_t bit = ascii ? left * 128 + right : bit_of(left, right);
    (ascii ? cuts->ascii : cuts->others)[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Returns the character at `i` and advances past it. */
static inline uint32_t take(const char *text, size_t length, size_t *i)
{
    const unsigned char lead = (unsigned char)text[*i];
    if (lead < 0x80) {
        ++*i;
        return lead;
    }
    const int size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const uint32_t code = (size_t)size <= length - *i ? weft__utf8_decode(text + *i, size) : 0;
    *i += (size_t)size;
    return code;
}

text_cuts *weft__cuts_new(const text_vocab *vocab)
{
    text_cuts *cuts = weft_calloc(1, sizeof *cuts);
    for (int32_t id = 0; cuts && id < vocab->size; id++) {
        const vocab_token *token = &vocab->tokens[id];
        if (!(token->flags & TOKEN_IN_MODEL) || token->length == 0)
            continue;
        const char *text = weft__vocab_text(vocab, token);
        size_t i = 0;
        uint32_t left = take(text, token->length, &i);
        while (i < token->length) {
            const uint32_t right = take(text, token->length, &i);
            join(cuts, left, right);
            left = right;
        }
    }
    return cuts;
}

size_t weft__cuts_next(const text_cuts *cuts, const char *text, size_t length, size_t start)
{
    size_t i = start;
    uint32_t left = take(text, length, &i);
    while (i < length) {
        const size_t at = i;
        const uint32_t right = take(text, length, &i);
        if (!are_joined(cuts, left, right))
            return at;
        left = right;
    }
    return length;
}
