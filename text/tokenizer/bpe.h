/* text/tokenizer/bpe.h -- the tokens of one word: byte-pair encoding, and the other models. */
#ifndef WEFT_TEXT_TOKENIZER_BPE_H
#define WEFT_TEXT_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/tokenizer/buffer.h"
#include "text/tokenizer/cuts.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORD_PIECE, MODEL_WORD_LEVEL } model_kind;

/* What tokenizer.json's "model" says. */
typedef struct bpe_model {
    model_kind kind;
    text_vocab vocab; /* the added tokens too */
    text_merges merges;
    bool byte_level;    /* words are bytes, each spelt as a character of its own */
    bool byte_fallback; /* a character without a token becomes its bytes' <0xXX> tokens */
    bool fuse_unknown;
    bool ignore_merges;        /* a word that is a token is that token */
    int32_t unknown;           /* -1: characters without a token are dropped */
    int32_t byte_ids[256];     /* byte-level: of the bytes' own characters */
    int32_t fallback_ids[256]; /* of <0xXX> */
    text_cuts *cuts;           /* where words can be cut further; NULL: nowhere */
    uint32_t
        *ranks; /* by id: merges go by the rank of what they make, `merges` is empty; or NULL */
    unigram_model unigram; /* MODEL_UNIGRAM */
    /* MODEL_WORD_PIECE: in front of tokens that do not begin a word; the characters of the longest
     * word that is looked at. */
    char *subword_prefix;
    size_t subword_prefix_length;
    int64_t longest_word;
} bpe_model;

typedef struct bpe_symbol {
    int32_t id; /* -1: absorbed by its left neighbour */
    int32_t previous, next;
    uint32_t start, length; /* in the word; where ranks decide. Length 0: absorbed */
} bpe_symbol;

typedef struct bpe_candidate {
    uint64_t key; /* rank, then position: the order of merging */
    int32_t left, right, id;
} bpe_candidate;

/* Words that were encoded before: a table of pairs, in which the newest word takes the first place,
 * the one before the second. */
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

/* Frees the parts that are larger than `bytes`, but for the cache. */
void weft__bpe_trim(bpe_scratch *scratch, size_t bytes);

/* Appends the ids of a word of valid UTF-8 to `out`: O(n log n) in its length. */
weft_status weft__bpe_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out);

/* The same where the ranks of tokens decide; weft__bpe_encode calls it. */
weft_status weft__spm_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                             size_t length, id_buffer *out);

/* The same of the other models; weft__bpe_encode calls them. */
weft_status weft__unigram_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                 size_t length, id_buffer *out);
weft_status weft__word_piece_encode(const bpe_model *model, bpe_scratch *scratch, const char *word,
                                    size_t length, id_buffer *out);
weft_status weft__word_level_encode(const bpe_model *model, const char *word, size_t length,
                                    id_buffer *out);

/* The <0xXX> tokens of a character's bytes, all or none: how many. */
int weft__fallback_ids(const bpe_model *model, const char *text, int size, int32_t ids[4]);

/* Prepares a model whose vocabulary and merges are whole: tokens of bytes, and cuts. */
void weft__bpe_prepare(bpe_model *model);

weft_status weft__symbol_add(bpe_scratch *scratch, bpe_symbol symbol);
weft_status weft__heap_push(bpe_scratch *scratch, bpe_candidate candidate);
bpe_candidate weft__heap_pop(bpe_scratch *scratch);

/* Byte-level spelling: printable bytes are themselves, the others U+0100 and up. */
uint32_t weft__byte_to_char(unsigned char byte);

/* The byte that a character spells, or -1. */
int weft__char_to_byte(uint32_t code);

#endif
