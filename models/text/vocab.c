/* models/text/vocab.c -- tokens by text and by id, merges by pair. */
#include "models/text/vocab.h"

#include <string.h>

#include "weft/memory.h"

/* A table of `count` entries stays at most half full. */
static size_t table_size(size_t count)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ length;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
        hash ^= hash >> 32;
        text += 8;
        length -= 8;
    }
    uint64_t tail = 0;
    memcpy(&tail, text, length);
    hash = (hash ^ tail) * UINT64_C(0x9FB21C651E98DF25);
    return hash ^ hash >> 29;
}

weft_status weft__vocab_init(text_vocab *vocab, int32_t size, size_t count)
{
    *vocab = (text_vocab){.size = size};
    const size_t slots = table_size(count);
    vocab->tokens = weft_calloc((size_t)size + 1, sizeof *vocab->tokens);
    vocab->slots = weft_calloc(slots, sizeof *vocab->slots);
    vocab->mask = slots - 1;
    if (vocab->tokens && vocab->slots)
        return WEFT_OK;
    weft__vocab_release(vocab);
    return weft_fail(WEFT_MEMORY, "tokenizer: no memory for a vocabulary of %zu tokens", count);
}

void weft__vocab_release(text_vocab *vocab)
{
    weft__bytes_release(&vocab->texts);
    weft_free(vocab->tokens);
    weft_free(vocab->slots);
    *vocab = (text_vocab){0};
}

/* The slot that holds the text, or the free one where it belongs. */
static size_t find_slot(const text_vocab *vocab, const char *text, size_t length)
{
    size_t slot = hash_text(text, length) & vocab->mask;
    while (vocab->slots[slot]) {
        const vocab_token *token = &vocab->tokens[vocab->slots[slot] - 1];
        if (token->length == length && memcmp(vocab->texts.data + token->start, text, length) == 0)
            break;
        slot = (slot + 1) & vocab->mask;
    }
    return slot;
}

weft_status weft__vocab_add(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags)
{
    const size_t start = vocab->texts.length;
    weft_status status = weft__bytes_append(&vocab->texts, text, length);
    if (!status)
        status = weft__bytes_append(&vocab->texts, "", 1);
    if (status)
        return status;
    vocab->slots[find_slot(vocab, text, length)] = (uint32_t)id + 1;
    vocab->longest = length > vocab->longest ? length : vocab->longest;
    vocab->tokens[id] =
        (vocab_token){.start = start, .length = (uint32_t)length, .flags = (uint8_t)flags};
    return WEFT_OK;
}

int32_t weft__vocab_find(const text_vocab *vocab, const char *text, size_t length)
{
    return (int32_t)vocab->slots[find_slot(vocab, text, length)] - 1;
}

int32_t weft__vocab_find_in_model(const text_vocab *vocab, const char *text, size_t length)
{
    const int32_t id = weft__vocab_find(vocab, text, length);
    return id >= 0 && vocab->tokens[id].flags & TOKEN_IN_MODEL ? id : -1;
}

const vocab_token *weft__vocab_token(const text_vocab *vocab, int32_t id)
{
    return id >= 0 && id < vocab->size && vocab->tokens[id].flags ? &vocab->tokens[id] : NULL;
}

const char *weft__vocab_text(const text_vocab *vocab, const vocab_token *token)
{
    return vocab->texts.data + token->start;
}

/* ---- merges --------------------------------------------------------------------------------- */

weft_status weft__merges_init(text_merges *merges, size_t count)
{
    const size_t size = table_size(count);
    *merges = (text_merges){.mask = size - 1};
    if (size <= SIZE_MAX / sizeof *merges->entries)
        merges->entries = weft_malloc(size * sizeof *merges->entries);
    if (!merges->entries)
        return weft_fail(WEFT_MEMORY, "tokenizer: no memory for %zu merges", count);
    for (size_t i = 0; i < size; i++)
        merges->entries[i] = (text_merge){.rank = UINT32_MAX};
    return WEFT_OK;
}

void weft__merges_release(text_merges *merges)
{
    weft_free(merges->entries);
    *merges = (text_merges){0};
}

static text_merge *find_entry(const text_merges *merges, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t hash = pair * UINT64_C(0x9E3779B97F4A7C15);
    size_t slot = (hash ^ hash >> 32) & merges->mask;
    for (;;) {
        text_merge *entry = &merges->entries[slot];
        if (entry->rank == UINT32_MAX || (entry->left == left && entry->right == right))
            return entry;
        slot = (slot + 1) & merges->mask;
    }
}

void weft__merges_set(text_merges *merges, text_merge merge)
{
    *find_entry(merges, merge.left, merge.right) = merge;
}

const text_merge *weft__merges_find(const text_merges *merges, int32_t left, int32_t right)
{
    const text_merge *entry = find_entry(merges, left, right);
    return entry->rank == UINT32_MAX ? NULL : entry;
}
