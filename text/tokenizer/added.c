/* text/tokenizer/added.c -- added tokens: a sorted list, narrowed byte by byte. */
#include "text/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "core/list.h"
#include "weft/memory.h"

weft_status weft__added_add(added_set *set, const added_token *token)
{
    added_token own = *token;
    own.text = weft__list_more(set->tokens, set->count) ? weft_malloc(token->length + 1) : NULL;
    if (!own.text)
        return weft__out_of_memory("tokenizer", "an added token");
    memcpy(own.text, token->text, token->length);
    own.text[token->length] = '\0';
    set->tokens[set->count++] = own;
    set->starts[(unsigned char)own.text[0]] = true;
    return WEFT_OK;
}

static int compare(const void *a, const void *b)
{
    const added_token *x = a, *y = b;
    const size_t common = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, common);
    if (order != 0)
        return order;
    return x->length < y->length ? -1 : x->length > y->length;
}

void weft__added_sort(added_set *set)
{
    if (set->count > 1)
        qsort(set->tokens, set->count, sizeof *set->tokens, compare);
}

void weft__added_release(added_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        weft_free(set->tokens[i].text);
    weft_free(set->tokens);
    *set = (added_set){0};
}

/* The first token of [low, high), which share `depth` bytes, whose next byte is at least `byte`. */
static size_t lower_bound(const added_set *set, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const added_token *token = &set->tokens[middle];
        const int at = depth < token->length ? (unsigned char)token->text[depth] : -1;
        if (at < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that `text` starts with, or NULL. */
static const added_token *longest_prefix(const added_set *set, const char *text, size_t length)
{
    const added_token *longest = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; depth < length; depth++) {
        const int byte = (unsigned char)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
        if (low == high)
            break;
        if (set->tokens[low].length == depth + 1)
            longest = &set->tokens[low];
    }
    return longest;
}

/* The character that ends or starts at a position in a valid text. */
static uint32_t char_before(const char *text, size_t at, size_t *start)
{
    *start = at - 1;
    while (((unsigned char)text[*start] & 0xC0) == 0x80)
        (*start)--;
    return weft__utf8_decode(text + *start, (int)(at - *start));
}

static uint32_t char_at(const char *text, size_t length, size_t at, size_t *end)
{
    const int size = weft__utf8_step(text + at, length - at);
    *end = at + (size_t)size;
    return weft__utf8_decode(text + at, size);
}

/* \w of UTS 18, as far as general categories determine it. */
static bool is_word(uint32_t code)
{
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return code == 0x200C || code == 0x200D; /* the joiners */
    }
}

static bool is_space(uint32_t code)
{
    if ((code >= 9 && code <= 13) || code == 0x85)
        return true;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return true;
    default:
        return false;
    }
}

static bool stands_alone(const char *text, size_t length, size_t start, size_t end)
{
    size_t unused;
    return (start == 0 || !is_word(char_before(text, start, &unused))) &&
           (end == length || !is_word(char_at(text, length, end, &unused)));
}

/* Extends the match by the white space that its token strips, back to `floor` at most. */
static void strip(const added_token *token, const char *text, size_t length, size_t floor,
                  added_match *match)
{
    size_t next;
    if (token->lstrip && match->start < floor)
        match->start = floor < match->end ? floor : match->end;
    while (token->lstrip && match->start > floor &&
           is_space(char_before(text, match->start, &next)))
        match->start = next;
    while (token->rstrip && match->end < length &&
           is_space(char_at(text, length, match->end, &next)))
        match->end = next;
}

bool weft__added_next(const added_set *set, const char *text, size_t length, size_t floor,
                      size_t *position, added_match *match)
{
    if (set->count == 0)
        return false;
    size_t i = *position;
    while (i < length) {
        const added_token *token =
            set->starts[(unsigned char)text[i]] ? longest_prefix(set, text + i, length - i) : NULL;
        if (!token) {
            i++;
            continue;
        }
        const size_t end = i + token->length;
        *position = end;
        if (!token->single_word || stands_alone(text, length, i, end)) {
            *match = (added_match){.id = token->id, .start = i, .end = end};
            strip(token, text, length, floor, match);
            return true;
        }
        i = end;
    }
    *position = length;
    return false;
}
