/* text/tokenizer/bpe.h -- encodes one word into tokens: byte-pair encoding, and the other models.
 */
#ifndef WEFT_TEXT_TOKENIZER_BPE_H
#define WEFT_TEXT_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"
#include "text/tokenizer/cuts.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORD_PIECE, MODEL_WORD_LEVEL } model_kind;

/* The contents of tokenizer.json's "model". */
typedef struct bpe_model {
    model_kind kind;
    text_vocab vocab; /* including the added tokens */
    text_merges merges;
    bool byte_level;    /* words are bytes, each spelled as a character */
    bool byte_fallback; /* a character without a token becomes the <0xXX> tokens of its bytes */
    bool fuse_unknown;
    bool ignore_merges;        /* a word that is a token is not merged */
    int32_t unknown;           /* -1: characters without a token are dropped */
    int32_t byte_ids[256];     /* byte-level: ids of the single bytes */
    int32_t fallback_ids[256]; /* of <0xXX> */
    text_cuts *cuts;           /* positions where words can be split further; NULL: none */
    uint32_t *ranks;   /* by id: a merge has the rank of the token that it makes, and `merges` is
                          empty. NULL: ranks are in `merges` */
    char *word_suffix; /* MODEL_BPE: follows the last character of a word, as in CLIP; NULL: none */
    unigram_model unigram; /* MODEL_UNIGRAM */
    /* MODEL_WORD_PIECE: prefix of tokens that do not begin a word; and the most characters of a
     * word to be split. */
    char *subword_prefix;
    size_t subword_prefix_length;
    int64_t longest_word;
} bpe_model;

typedef struct bpe_symbol {
    int32_t id; /* -1: merged into its left neighbor */
    int32_t previous, next;
    uint32_t start, length; /* within the word; used with ranks. Length 0: merged */
} bpe_symbol;

typedef struct bpe_candidate {
    uint64_t key; /* rank, then position: the order of merging */
    int32_t left, right, id;
} bpe_candidate;

/* Cache of encoded words: a table of pairs; a new word replaces the first of a pair, which becomes
 * the second. */
enum { CACHE_ENTRIES = 1 << 15, CACHE_LONGEST = 30, CACHE_IDS = 8 };

typedef struct cached_word {
    uint8_t length, count; /* length 0: empty */
    char word[CACHE_LONGEST];
    int32_t ids[CACHE_IDS];
} cached_word;

/* Scratch memory, reused from word to word. Zeroed is empty. */
typedef struct bpe_scratch {
    bpe_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    bpe_candidate *heap;
    size_t heap_count, heap_capacity;
    text_buffer spelling;
    unigram_node *nodes;
    size_t node_capacity;
    cached_word *cache; /* of CACHE_ENTRIES */
} bpe_scratch;

void weft__bpe_release(bpe_scratch *scratch);

/* Frees buffers larger than `bytes`, except the cache. */
void weft__bpe_trim(bpe_scratch *scratch, size_t bytes);

/* Appends the ids of a valid UTF-8 word to `out`, in O(n log n). */
weft_status weft__bpe_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out);

/* The same with token ranks; weft__bpe_encode calls it. */
weft_status weft__spm_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out);

/* The same for the other models; weft__bpe_encode calls them. */
weft_status weft__unigram_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                 size_t length, id_buffer *out);
weft_status weft__word_piece_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                    size_t length, id_buffer *out);
weft_status weft__word_level_encode(const bpe_model *model, const char *word, size_t length,
                                    id_buffer *out);

/* The <0xXX> tokens of a character's bytes, all or none; returns their number. */
int weft__fallback_ids(const bpe_model *model, const char *text, int size, int32_t ids[4]);

/* Prepares a model once its vocabulary and merges are complete: byte tokens, and split positions.
 */
void weft__bpe_prepare(bpe_model *model);

weft_status weft__symbol_add(bpe_scratch *scratch, bpe_symbol symbol);
weft_status weft__heap_push(bpe_scratch *scratch, bpe_candidate candidate);
bpe_candidate weft__heap_pop(bpe_scratch *scratch);

/* Byte-level spelling: printable bytes map to themselves, the others to U+0100 and up. */
uint32_t weft__byte_to_char(unsigned char byte);

/* The byte that a character spells, or -1. */
int weft__char_to_byte(uint32_t code);

#endif
