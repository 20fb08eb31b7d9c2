/* text/tokenizer/bpe.c -- byte-pair encoding of a word: a linked list of symbols and a heap of
 * possible merges (Sennrich et al. 2016; ties go to the left). */
#include "text/tokenizer/bpe.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "weft/memory.h"

/* ---- the byte alphabet (Radford et al. 2019) ------------------------------------------------ */

/* Bytes 33 to 126, 161 to 172 and 174 to 255 map to the same code points. The other 68 map to
 * U+0100 to U+0143 in order. */
uint32_t weft__byte_to_char(unsigned char byte)
{
    if (byte < 33)
        return 256u + byte;
    if (byte < 127)
        return byte;
    if (byte < 161)
        return 256u + 33 + (byte - 127u);
    return byte == 173 ? 256u + 67 : byte;
}

int weft__char_to_byte(uint32_t code)
{
    if (code < 256)
        return weft__byte_to_char((unsigned char)code) == code ? (int)code : -1;
    const uint32_t n = code - 256;
    if (n < 33)
        return (int)n;
    if (n < 67)
        return (int)(n - 33 + 127);
    return n == 67 ? 173 : -1;
}

/* Whether the id, which is within their range, is that of a <0xXX> token. */
static bool is_fallback(const bpe_model *model, int32_t id)
{
    for (int b = 0; b < 256; b++) {
        if (model->fallback_ids[b] == id)
            return true;
    }
    return false;
}

/* Whether words cannot be split at character pairs: some byte has no <0xXX> token, or is a token
 * itself, or a merge uses one. */
static bool needs_whole_texts(const bpe_model *model)
{
    int32_t low = INT32_MAX, high = -1;
    for (int b = 0; b < 256; b++) {
        const int32_t id = model->fallback_ids[b];
        const char text = (char)b;
        if (id < 0 && (b >= 0x80 || weft__vocab_find_in_model(&model->vocab, &text, 1) < 0))
            return true;
        if (id >= 0) {
            low = id < low ? id : low;
            high = id > high ? id : high;
        }
    }
    for (size_t i = 0; i < model->merges.count; i++) {
        const struct merge_parts *parts = &model->merges.list[i];
        if (parts->left >= low && parts->left <= high && is_fallback(model, parts->left))
            return true;
        if (parts->right >= low && parts->right <= high && is_fallback(model, parts->right))
            return true;
    }
    return false;
}

void weft__bpe_prepare(bpe_model *model)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        const int size = weft__utf8_encode(weft__byte_to_char((unsigned char)b), text);
        model->byte_ids[b] = weft__vocab_find_in_model(&model->vocab, text, (size_t)size);
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        model->fallback_ids[b] = weft__vocab_find_in_model(&model->vocab, text, 6);
    }
    if (model->kind == MODEL_BPE && !model->byte_level && !model->ignore_merges &&
        model->byte_fallback && !needs_whole_texts(model))
        model->cuts = weft__cuts_new(&model->vocab);
}

/* ---- the heap ------------------------------------------------------------------------------- */

weft_status weft__heap_push(bpe_scratch *s, bpe_candidate candidate)
{
    if (s->heap_count == s->heap_capacity) {
        void *data = s->heap;
        const weft_status status =
            weft__bytes_grow(&data, &s->heap_capacity, s->heap_count, 1, sizeof *s->heap);
        s->heap = data;
        if (status)
            return status;
    }
    size_t at = s->heap_count++;
    while (at > 0 && s->heap[(at - 1) / 2].key > candidate.key) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = candidate;
    return WEFT_OK;
}

bpe_candidate weft__heap_pop(bpe_scratch *s)
{
    const bpe_candidate top = s->heap[0];
    const bpe_candidate last = s->heap[--s->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && s->heap[child + 1].key < s->heap[child].key)
            child++;
        if (s->heap[child].key >= last.key)
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return top;
}

/* ---- symbols -------------------------------------------------------------------------------- */

weft_status weft__symbol_add(bpe_scratch *s, bpe_symbol symbol)
{
    if (s->symbol_count == s->symbol_capacity) {
        void *data = s->symbols;
        const weft_status status =
            weft__bytes_grow(&data, &s->symbol_capacity, s->symbol_count, 1, sizeof *s->symbols);
        s->symbols = data;
        if (status)
            return status;
    }
    const int32_t at = (int32_t)s->symbol_count++;
    symbol.previous = at - 1;
    symbol.next = at + 1;
    s->symbols[at] = symbol;
    return WEFT_OK;
}

static weft_status add_symbol(bpe_scratch *s, int32_t id)
{
    return weft__symbol_add(s, (bpe_symbol){.id = id});
}

int weft__fallback_ids(const bpe_model *model, const char *text, int size, int32_t ids[4])
{
    for (int i = 0; i < size; i++) {
        ids[i] = model->fallback_ids[(unsigned char)text[i]];
        if (ids[i] < 0)
            return 0;
    }
    return size;
}

/* *id: the token of the last byte or character of a word with the suffix of words, or -1. */
static weft_status find_last(const bpe_model *model, bpe_scratch *s, const char *text, int size,
                             int32_t *id)
{
    char spelled[8];
    if (model->byte_level) {
        size = weft__utf8_encode(weft__byte_to_char((unsigned char)*text), spelled);
        text = spelled;
    }
    s->spelling.length = 0;
    weft_status status = weft__bytes_append(&s->spelling, text, (size_t)size);
    if (!status)
        status = weft__bytes_append(&s->spelling, model->word_suffix, strlen(model->word_suffix));
    if (!status)
        *id = weft__vocab_find_in_model(&model->vocab, s->spelling.data, s->spelling.length);
    return status;
}

/* Converts bytes or characters to symbols. An unknown token is delayed until the next known one, so
 * that a run of them can fuse; byte tokens do not end the run, as in the reference. */
static weft_status start_symbols(const bpe_model *model, bpe_scratch *s, const char *word,
                                 size_t length)
{
    s->symbol_count = 0;
    bool unknown_waits = false;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < length && !status;) {
        const int size = model->byte_level ? 1 : weft__utf8_step(word + i, length - i);
        const char *text = word + i;
        int32_t id = model->byte_level
                         ? model->byte_ids[(unsigned char)*text]
                         : weft__vocab_find_in_model(&model->vocab, text, (size_t)size);
        if (model->word_suffix && i + (size_t)size >= length)
            status = find_last(model, s, text, size, &id);
        int32_t bytes[4];
        int count = 0;
        if (id < 0 && model->byte_fallback && !model->byte_level)
            count = weft__fallback_ids(model, text, size, bytes);
        if (id >= 0) {
            if (unknown_waits)
                status = add_symbol(s, model->unknown);
            unknown_waits = false;
            if (!status)
                status = add_symbol(s, id);
        } else if (count > 0) {
            for (int k = 0; k < count && !status; k++)
                status = add_symbol(s, bytes[k]);
        } else if (model->unknown >= 0) {
            if (unknown_waits && !model->fuse_unknown)
                status = add_symbol(s, model->unknown);
            unknown_waits = true;
        }
        i += (size_t)size;
    }
    if (unknown_waits && !status)
        status = add_symbol(s, model->unknown);
    return status;
}

/* Queues the merge of the symbol at `at` with its right neighbor, if they have one. */
static weft_status queue_merge(const bpe_model *model, bpe_scratch *s, int32_t at)
{
    const int32_t left = s->symbols[at].id, right = s->symbols[s->symbols[at].next].id;
    const uint32_t rank = weft__merges_rank(&model->merges, left, right);
    if (rank == NO_MERGE)
        return WEFT_OK;
    return weft__heap_push(s, (bpe_candidate){.key = (uint64_t)rank << 32 | (uint32_t)at,
                                              .left = left,
                                              .right = right,
                                              .id = model->merges.list[rank].whole});
}

static weft_status merge_symbols(const bpe_model *model, bpe_scratch *s)
{
    const int32_t end = (int32_t)s->symbol_count;
    weft_status status = WEFT_OK;
    s->heap_count = 0;
    for (int32_t i = 0; i + 1 < end && !status; i++)
        status = queue_merge(model, s, i);
    while (s->heap_count > 0 && !status) {
        const bpe_candidate best = weft__heap_pop(s);
        const int32_t at = (int32_t)(uint32_t)best.key;
        bpe_symbol *symbol = &s->symbols[at];
        /* A candidate is stale once either of its symbols has merged with another. */
        if (symbol->id != best.left || symbol->next == end ||
            s->symbols[symbol->next].id != best.right)
            continue;
        bpe_symbol *absorbed = &s->symbols[symbol->next];
        symbol->id = best.id;
        symbol->next = absorbed->next;
        absorbed->id = -1;
        if (symbol->next != end)
            s->symbols[symbol->next].previous = at;
        if (symbol->previous >= 0)
            status = queue_merge(model, s, symbol->previous);
        if (symbol->next != end && !status)
            status = queue_merge(model, s, at);
    }
    return status;
}

/* The token that spells the whole word, or -1. */
static weft_status find_whole(const bpe_model *model, bpe_scratch *s, const char *word,
                              size_t length, int32_t *id)
{
    if (!model->byte_level) {
        *id = weft__vocab_find_in_model(&model->vocab, word, length);
        return WEFT_OK;
    }
    s->spelling.length = 0;
    const weft_status status = weft__bytes_reserve(&s->spelling, 2 * length);
    if (status)
        return status;
    for (size_t i = 0; i < length; i++)
        s->spelling.length += (size_t)weft__utf8_encode(weft__byte_to_char((unsigned char)word[i]),
                                                        s->spelling.data + s->spelling.length);
    *id = weft__vocab_find_in_model(&model->vocab, s->spelling.data, s->spelling.length);
    return WEFT_OK;
}

/* Up to this many symbols, examining all of them for each merge is faster than a heap. */
enum { FEW_SYMBOLS = 32 };

static weft_status merge_few(const bpe_model *model, const bpe_scratch *s, id_buffer *out)
{
    int32_t ids[FEW_SYMBOLS];
    uint32_t ranks[FEW_SYMBOLS]; /* rank of the merge with the next symbol */
    size_t count = s->symbol_count;
    for (size_t i = 0; i < count; i++)
        ids[i] = s->symbols[i].id;
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = weft__merges_rank(&model->merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            best = ranks[i] < ranks[best] ? i : best;
        if (ranks[best] == NO_MERGE)
            break;
        ids[best] = model->merges.list[ranks[best]].whole;
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        if (best > 0)
            ranks[best - 1] = weft__merges_rank(&model->merges, ids[best - 1], ids[best]);
        if (best + 1 < count)
            ranks[best] = weft__merges_rank(&model->merges, ids[best], ids[best + 1]);
    }
    return weft__ids_append_all(out, ids, count);
}

static weft_status encode_word(const bpe_model *model, bpe_scratch *scratch, const char *word,
                               size_t length, id_buffer *out)
{
    if (length >= INT32_MAX)
        return weft_fail(WEFT_INVALID, "tokenizer: a word of %zu bytes, at most %d fit", length,
                         INT32_MAX);
    if (model->kind == MODEL_UNIGRAM)
        return weft__unigram_encode(model, scratch, word, length, out);
    if (model->kind == MODEL_WORD_PIECE)
        return weft__word_piece_encode(model, scratch, word, length, out);
    if (model->kind == MODEL_WORD_LEVEL)
        return weft__word_level_encode(model, word, length, out);
    if (model->ranks)
        return weft__spm_encode(model, scratch, word, length, out);
    weft_status status = WEFT_OK;
    if (model->ignore_merges) {
        int32_t id = -1;
        status = find_whole(model, scratch, word, length, &id);
        if (status || id >= 0)
            return status ? status : weft__ids_append(out, id);
    }
    status = start_symbols(model, scratch, word, length);
    if (!status && scratch->symbol_count <= FEW_SYMBOLS)
        return merge_few(model, scratch, out);
    if (!status)
        status = merge_symbols(model, scratch);
    for (size_t i = 0; i < scratch->symbol_count && !status; i++) {
        if (scratch->symbols[i].id >= 0)
            status = weft__ids_append(out, scratch->symbols[i].id);
    }
    return status;
}

static weft_status encode_cached(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                 size_t length, id_buffer *out)
{
    if (length > CACHE_LONGEST)
        return encode_word(model, scratch, word, length, out);
    if (!scratch->cache) {
        scratch->cache = weft_calloc(CACHE_ENTRIES, sizeof *scratch->cache);
        if (!scratch->cache)
            return weft__out_of_memory("tokenizer", "the words of a text");
    }
    cached_word *entry = &scratch->cache[2 * (weft__text_hash(word, length) % (CACHE_ENTRIES / 2))];
    for (int i = 0; i < 2; i++) {
        if (entry[i].length == length && memcmp(entry[i].word, word, length) == 0)
            return weft__ids_append_all(out, entry[i].ids, entry[i].count);
    }
    const size_t before = out->length;
    const weft_status status = encode_word(model, scratch, word, length, out);
    const size_t count = out->length - before;
    if (!status && count <= CACHE_IDS) {
        entry[1] = entry[0];
        entry->length = (uint8_t)length;
        entry->count = (uint8_t)count;
        memcpy(entry->word, word, length);
        if (count > 0)
            memcpy(entry->ids, out->data + before, count * sizeof *entry->ids);
    }
    return status;
}

weft_status weft__bpe_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out)
{
    if (length == 0)
        return WEFT_OK;
    if (!model->cuts)
        return encode_cached(model, scratch, word, length, out);
    weft_status status = WEFT_OK;
    for (size_t start = 0; start < length && !status;) {
        const size_t end = weft__cuts_next(model->cuts, word, length, start);
        status = encode_cached(model, scratch, word + start, end - start, out);
        start = end;
    }
    return status;
}

void weft__bpe_trim(bpe_scratch *scratch, size_t bytes)
{
    if (scratch->node_capacity * sizeof *scratch->nodes > bytes) {
        weft_free(scratch->nodes);
        scratch->nodes = NULL;
        scratch->node_capacity = 0;
    }
    if (scratch->symbol_capacity * sizeof *scratch->symbols <= bytes &&
        scratch->heap_capacity * sizeof *scratch->heap <= bytes)
        return;
    weft_free(scratch->symbols);
    weft_free(scratch->heap);
    scratch->symbols = NULL;
    scratch->heap = NULL;
    scratch->symbol_capacity = scratch->heap_capacity = 0;
    scratch->symbol_count = scratch->heap_count = 0;
}

void weft__bpe_release(bpe_scratch *scratch)
{
    weft_free(scratch->symbols);
    weft_free(scratch->heap);
    weft_free(scratch->nodes);
    weft_free(scratch->cache);
    weft__bytes_release(&scratch->spelling);
    *scratch = (bpe_scratch){0};
}
