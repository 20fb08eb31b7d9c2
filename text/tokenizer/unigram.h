/* text/tokenizer/unigram.h -- the unigram language model of words (Kudo 2018): the scores of its
 * tokens. */
#ifndef WEFT_TEXT_TOKENIZER_UNIGRAM_H
#define WEFT_TEXT_TOKENIZER_UNIGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "text/tokenizer/vocab.h"

/* A token's text, stored in the vocabulary. */
typedef struct unigram_piece {
    const char *text;
    uint32_t length;
    int32_t id;
} unigram_piece;

/* Zeroed is empty. */
typedef struct unigram_model {
    double *scores; /* by id */
    size_t score_count;
    unigram_piece *pieces; /* the model's own tokens, by text */
    size_t piece_count;
    double unknown_score; /* score of a character without a token */
} unigram_model;

/* The best segmentation up to a position of a word. */
typedef struct unigram_node {
    double score;
    int32_t start; /* of the last token; -1: not reachable yet */
    int32_t id;
    int32_t next; /* on the best path to the word's end: end of the token that starts here */
} unigram_node;

/* Appends the score of the next id. */
weft_status weft__unigram_add_score(unigram_model *model, double score);

/* Sorts the pieces of a complete vocabulary. */
weft_status weft__unigram_index(unigram_model *model, const text_vocab *vocab);

void weft__unigram_release(unigram_model *model);

#endif
