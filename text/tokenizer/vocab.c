/* text/tokenizer/vocab.c -- tokens by text and by id, merges by pair. */
#include "text/tokenizer/vocab.h"

#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "weft/memory.h"

/* ---- tokens --------------------------------------------------------------------------------- */

/* The first and last bytes of a short text, which may overlap. */
static uint64_t short_word(const char *text, size_t length)
{
    uint32_t first = 0, last = 0;
    if (length >= 4) {
        memcpy(&first, text, 4);
        memcpy(&last, text + length - 4, 4);
        return (uint64_t)last << 32 | first;
    }
    if (length == 0)
        return 0;
    const unsigned char *bytes = (const unsigned char *)text;
    return (uint64_t)bytes[0] << 16 | (uint64_t)bytes[length / 2] << 8 | bytes[length - 1];
}

uint64_t weft__text_hash(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ length;
    while (length > 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
        hash ^= hash >> 32;
        text += 8;
        length -= 8;
    }
    hash = (hash ^ short_word(text, length)) * UINT64_C(0x9FB21C651E98DF25);
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

void weft__vocab_release(text_vocab *vocab)
{
    weft__bytes_release(&vocab->texts);
    weft_free(vocab->tokens);
    weft_free(vocab->slots);
    *vocab = (text_vocab){0};
}

/* The slot that contains the text, or the free slot for it. */
static size_t find_slot(const text_vocab *vocab, const char *text, size_t length, uint64_t hash)
{
    size_t slot = hash & vocab->mask;
    for (uint64_t entry; (entry = vocab->slots[slot]) != 0; slot = (slot + 1) & vocab->mask) {
        if ((entry ^ hash) >> 32)
            continue;
        const vocab_token *token = &vocab->tokens[(uint32_t)entry - 1];
        if (token->length == length && memcmp(vocab->texts.data + token->start, text, length) == 0)
            break;
    }
    return slot;
}

static void enter(text_vocab *vocab, int32_t id)
{
    const vocab_token *token = &vocab->tokens[id];
    const char *text = vocab->texts.data + token->start;
    const uint64_t hash = weft__text_hash(text, token->length);
    vocab->slots[find_slot(vocab, text, token->length, hash)] =
        hash >> 32 << 32 | (uint32_t)(id + 1);
}

/* Rebuilds the table for twice the current number of tokens. */
weft_status weft__vocab_index(text_vocab *vocab)
{
    size_t slots = 16;
    while (slots < 2 * vocab->count)
        slots *= 2;
    weft_free(vocab->slots);
    vocab->slots = weft_calloc(slots, sizeof *vocab->slots);
    vocab->mask = slots - 1;
    if (!vocab->slots)
        return weft_fail(WEFT_MEMORY, "tokenizer: out of memory for a vocabulary of %zu tokens",
                         vocab->count);
    for (int32_t id = 0; id < vocab->size; id++) {
        if (vocab->tokens[id].flags)
            enter(vocab, id);
    }
    return WEFT_OK;
}

weft_status weft__vocab_put(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags)
{
    const size_t size = (size_t)id + 1, before = vocab->capacity;
    if (size > before) {
        void *data = vocab->tokens;
        const weft_status status =
            weft__bytes_grow(&data, &vocab->capacity, before, size - before, sizeof *vocab->tokens);
        vocab->tokens = data;
        if (status)
            return status;
        memset(vocab->tokens + before, 0, (vocab->capacity - before) * sizeof *vocab->tokens);
    }
    const size_t start = vocab->texts.length;
    weft_status status = weft__bytes_append(&vocab->texts, text, length);
    if (!status)
        status = weft__bytes_append(&vocab->texts, "", 1);
    if (status)
        return status;
    vocab->size = id < vocab->size ? vocab->size : id + 1;
    vocab->longest = length > vocab->longest ? length : vocab->longest;
    vocab->count++;
    vocab->tokens[id] = (vocab_token){
        .start = start, .length = (uint32_t)length, .flags = (uint8_t)(flags | TOKEN_KNOWN)};
    return WEFT_OK;
}

weft_status weft__vocab_add(text_vocab *vocab, int32_t id, const char *text, size_t length,
                            unsigned flags)
{
    const weft_status status = weft__vocab_put(vocab, id, text, length, flags);
    if (status)
        return status;
    if (!vocab->slots || 2 * vocab->count > vocab->mask)
        return weft__vocab_index(vocab);
    enter(vocab, id);
    return WEFT_OK;
}

int32_t weft__vocab_find(const text_vocab *vocab, const char *text, size_t length)
{
    if (!vocab->slots)
        return -1;
    const size_t slot = find_slot(vocab, text, length, weft__text_hash(text, length));
    return (int32_t)(uint32_t)vocab->slots[slot] - 1;
}

void weft__vocab_ask_slot(const text_vocab *vocab, uint64_t hash)
{
    if (vocab->slots)
        __builtin_prefetch(&vocab->slots[hash & vocab->mask]);
}

/* The token in the first slot of a hash; NULL if the text cannot be there. */
static const vocab_token *first_token(const text_vocab *vocab, uint64_t hash)
{
    const uint64_t entry = vocab->slots ? vocab->slots[hash & vocab->mask] : 0;
    return entry != 0 && (entry ^ hash) >> 32 == 0 ? &vocab->tokens[(uint32_t)entry - 1] : NULL;
}

void weft__vocab_ask_token(const text_vocab *vocab, uint64_t hash)
{
    const vocab_token *token = first_token(vocab, hash);
    if (token)
        __builtin_prefetch(token);
}

void weft__vocab_ask_text(const text_vocab *vocab, uint64_t hash)
{
    const vocab_token *token = first_token(vocab, hash);
    if (token)
        __builtin_prefetch(vocab->texts.data + token->start);
}

int32_t weft__vocab_answer(const text_vocab *vocab, uint64_t hash, const char *text, size_t length)
{
    if (!vocab->slots)
        return -1;
    const size_t slot = find_slot(vocab, text, length, hash);
    const int32_t id = (int32_t)(uint32_t)vocab->slots[slot] - 1;
    return id >= 0 && vocab->tokens[id].flags & TOKEN_IN_MODEL ? id : -1;
}

int32_t weft__vocab_find_in_model(const text_vocab *vocab, const char *text, size_t length)
{
    return weft__vocab_answer(vocab, weft__text_hash(text, length), text, length);
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

void weft__merges_release(text_merges *merges)
{
    weft_free(merges->list);
    weft_free(merges->entries);
    *merges = (text_merges){0};
}

weft_status weft__merges_add(text_merges *merges, int32_t left, int32_t right, int32_t whole)
{
    if (!weft__list_more(merges->list, merges->count))
        return weft__out_of_memory("tokenizer", "its merges");
    merges->list[merges->count++] = (struct merge_parts){left, right, whole};
    return WEFT_OK;
}

/* The first slot of a pair in a table of any size: the upper half of a product. */
static size_t first_slot(const text_merges *merges, int32_t left, int32_t right)
{
    uint64_t hash =
        ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32) * UINT64_C(0x9FB21C651E98DF25);
    return (size_t)((hash >> 32) * merges->size >> 32);
}

static text_merge *find_entry(const text_merges *merges, size_t slot, int32_t left, int32_t right)
{
    for (;;) {
        text_merge *entry = &merges->entries[slot];
        if (entry->rank == NO_MERGE || (entry->left == left && entry->right == right))
            return entry;
        slot = slot + 1 == merges->size ? 0 : slot + 1;
    }
}

weft_status weft__merges_index(text_merges *merges)
{
    enum { AHEAD = 8 }; /* entries that are being prefetched */
    merges->size = merges->count + merges->count / 2 + 8;
    if (merges->count < UINT32_MAX / 2)
        merges->entries = weft_malloc(merges->size * sizeof *merges->entries);
    if (!merges->entries)
        return weft_fail(WEFT_MEMORY, "tokenizer: out of memory for %zu merges", merges->count);
    memset(merges->entries, 0xFF, merges->size * sizeof *merges->entries);
    size_t slots[AHEAD];
    for (size_t i = 0; i < merges->count + AHEAD; i++) {
        if (i >= AHEAD && merges->list[i - AHEAD].left >= 0) {
            const struct merge_parts *parts = &merges->list[i - AHEAD];
            *find_entry(merges, slots[i % AHEAD], parts->left, parts->right) = (text_merge){
                .left = parts->left, .right = parts->right, .rank = (uint32_t)(i - AHEAD)};
        }
        if (i < merges->count) {
            const struct merge_parts *parts = &merges->list[i];
            slots[i % AHEAD] = first_slot(merges, parts->left, parts->right);
            __builtin_prefetch(&merges->entries[slots[i % AHEAD]], 1);
        }
    }
    return WEFT_OK;
}

uint32_t weft__merges_rank(const text_merges *merges, int32_t left, int32_t right)
{
    return find_entry(merges, first_slot(merges, left, right), left, right)->rank;
}
