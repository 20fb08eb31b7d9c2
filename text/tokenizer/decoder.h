/* text/tokenizer/decoder.h -- tokenizer.json's "decoder", one token at a time. */
#ifndef WEFT_TEXT_TOKENIZER_DECODER_H
#define WEFT_TEXT_TOKENIZER_DECODER_H

#include <stdbool.h>

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"

enum { DECODER_MAX_REPLACES = 8 };

typedef enum decoder_kind {
    DECODE_JOIN,       /* no decoder: tokens with a space between */
    DECODE_BYTES,      /* ByteLevel: characters spell bytes */
    DECODE_CHARACTERS, /* Replace, ByteFallback, Fuse, Strip */
    DECODE_WORD_PIECES /* WordPiece: words with a space between, their tokens joined */
} decoder_kind;

typedef struct decoder_replace {
    char *from, *to;
    size_t from_length, to_length;
} decoder_replace;

typedef struct text_decoder {
    decoder_kind kind;
    decoder_replace replaces[DECODER_MAX_REPLACES]; /* in each token, one after another */
    int replace_count;
    bool drop_first;    /* the first token's replaced texts are nothing (Metaspace) */
    bool byte_fallback; /* a run of <0xXX> tokens is bytes */
    bool fuse;          /* tokens are one text, whose start Strip means */
    int strip_start;    /* so many `strip` bytes are taken from the start of the whole text */
    char strip;
    char *prefix; /* WordPiece: of tokens that do not begin a word */
    size_t prefix_length;
    bool cleanup; /* WordPiece: no spaces before punctuation and contractions */
} text_decoder;

/* Reads the "decoder" of a tokenizer.json. */
weft_status weft__decoder_load(const weft__json *root, text_decoder *out);

/* The decoder of vocabularies that write spaces as U+2581; `prefix`: the first one is none. */
weft_status weft__decoder_from_marks(text_decoder *out, bool prefix, const char *name);

void weft__decoder_release(text_decoder *decoder);

/* What has been decoded, but is not yet text. Zeroed is the start. */
typedef struct decoder_state {
    text_buffer pending; /* DECODE_BYTES: half a character; DECODE_CHARACTERS: a run of bytes */
    text_buffer work[2];
    bool started; /* a token came before */
    int stripped;
} decoder_state;

void weft__decoder_state_release(decoder_state *state);
void weft__decoder_state_reset(decoder_state *state);

/* Appends to `out` the text that a token completes; `weft__decode_end` what is left. */
weft_status weft__decode_token(const text_decoder *decoder, decoder_state *state, const char *token,
                               size_t length, text_buffer *out);
weft_status weft__decode_end(const text_decoder *decoder, decoder_state *state, text_buffer *out);

#endif
