/* text/tokenizer/decoder.h -- tokenizer.json's "decoder", which decodes one token at a time. */
#ifndef WEFT_TEXT_TOKENIZER_DECODER_H
#define WEFT_TEXT_TOKENIZER_DECODER_H

#include <stdbool.h>

#include "core/io/json.h"
#include "text/tokenizer/buffer.h"

enum { DECODER_MAX_REPLACES = 8 };

typedef enum decoder_kind {
    DECODE_JOIN,       /* no decoder: tokens are separated by spaces */
    DECODE_BYTES,      /* ByteLevel: characters spell bytes */
    DECODE_CHARACTERS, /* Replace, ByteFallback, Fuse, Strip */
    DECODE_WORD_PIECES /* WordPiece: words are separated by spaces, their tokens joined */
} decoder_kind;

typedef struct decoder_replace {
    char *from, *to;
    size_t from_length, to_length;
} decoder_replace;

typedef struct text_decoder {
    decoder_kind kind;
    decoder_replace replaces[DECODER_MAX_REPLACES]; /* applied in order to each token */
    int replace_count;
    bool drop_first;    /* the first token's replaced text is dropped (Metaspace) */
    bool byte_fallback; /* runs of <0xXX> tokens are decoded as bytes */
    bool fuse;          /* Strip applies to the start of the whole text */
    int strip_start;    /* number of `strip` bytes to remove from the start of the whole text */
    char strip;
    char *prefix; /* WordPiece: prefix of tokens that do not begin a word */
    size_t prefix_length;
    bool cleanup; /* WordPiece: removes spaces before punctuation and contractions */
} text_decoder;

/* Reads the "decoder" of a tokenizer.json. */
weft_status weft__decoder_load(const weft__json *root, text_decoder *out);

/* The decoder for vocabularies that write spaces as U+2581; `prefix`: drops the first one. */
weft_status weft__decoder_from_marks(text_decoder *out, bool prefix, const char *name);

void weft__decoder_release(text_decoder *decoder);

/* Decoder state: bytes that are not text yet. Zeroed at the start. */
typedef struct decoder_state {
    text_buffer
        pending; /* DECODE_BYTES: an incomplete character; DECODE_CHARACTERS: a run of bytes */
    text_buffer work[2];
    bool started; /* a token has been decoded */
    int stripped;
} decoder_state;

void weft__decoder_state_release(decoder_state *state);
void weft__decoder_state_reset(decoder_state *state);

/* Appends to `out` the text that a token completes; `weft__decode_end` appends the rest. */
weft_status weft__decode_token(const text_decoder *decoder, decoder_state *state, const char *token,
                               size_t length, text_buffer *out);
weft_status weft__decode_end(const text_decoder *decoder, decoder_state *state, text_buffer *out);

#endif
