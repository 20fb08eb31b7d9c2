/* models/text/tokenizer.h -- what a weft_tokenizer is, for the files of this folder. */
#ifndef WEFT_MODELS_TEXT_TOKENIZER_H
#define WEFT_MODELS_TEXT_TOKENIZER_H

#include "core/io/json.h"
#include "models/text/added.h"
#include "models/text/bpe.h"
#include "models/text/decoder.h"
#include "models/text/normalize.h"
#include "models/text/pretokenize.h"
#include "weft/tokenizer.h"

struct weft_tokenizer {
    char *name; /* the file, for messages */
    bpe_model model;
    added_set raw;        /* added tokens looked for in the text as it comes */
    added_set normalized; /* and those looked for behind the normalizer */
    text_normalizer normalizer;
    text_splitter splitter;
    text_decoder decoder;
    id_buffer prefix, suffix; /* what the post-processor puts around a text */
    int32_t bos, eos, pad;
};

/* Reads "model", and enters the tokens of "added_tokens" in its vocabulary. */
weft_status weft__model_load(const weft__json *root, bool byte_level, bpe_model *model);
void weft__model_release(bpe_model *model);

/* Reads "added_tokens" into the two sets; their ids are in the model's vocabulary already. */
weft_status weft__added_load(const weft__json *root, weft_tokenizer *tokenizer);

/* Reads "post_processor". */
weft_status weft__postprocessor_load(const weft__json *root, weft_tokenizer *tokenizer);

/* Reads bos, eos and pad from a tokenizer_config.json. */
weft_status weft__special_load(const weft__json *config, weft_tokenizer *tokenizer);

/* Adds a token to the set that looks for it in the text, once the vocabulary has it. `normalized`:
 * behind the normalizer, through which the token goes too. Sort the sets at the end. */
weft_status weft__added_enter(weft_tokenizer *tokenizer, const added_token *token, bool normalized);

/* The text of an id that decoding starts from, NULL when it has no token. */
const char *weft__token_text(const weft_tokenizer *tokenizer, int32_t id, size_t *length);

#endif
