/* text/tokenizer/tokenizer.h -- the struct weft_tokenizer, for this folder. */
#ifndef WEFT_TEXT_TOKENIZER_TOKENIZER_H
#define WEFT_TEXT_TOKENIZER_TOKENIZER_H

#include <pthread.h>

#include "core/io/json.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/pretokenize.h"
#include "weft/tokenizer.h"

/* Memory for an encoding, reused by later ones; used by one at a time. */
typedef struct encode_scratch {
    struct encode_scratch *next;
    bpe_scratch bpe;
    text_buffer normalized[2];
    text_buffer pieces[SPLITTER_MAX_STEPS];
} encode_scratch;

typedef struct scratch_pool {
    pthread_mutex_t mutex;
    encode_scratch *idle;
} scratch_pool;

struct weft_tokenizer {
    char *name; /* the file, for messages */
    bpe_model model;
    added_set raw;        /* added tokens that are searched in the original text */
    added_set normalized; /* and those that are searched in the normalized text */
    text_normalizer normalizer;
    text_splitter splitter;
    text_decoder decoder;
    id_buffer prefix, suffix; /* added by the post-processor around a text */
    int32_t bos, eos, pad;
    scratch_pool *pool;
    /* of an extended tokenizer (extend.c): number of tokens added, and the files that it was read
     * from; config may be NULL */
    int32_t further;
    char *json, *config;
    size_t json_length, config_length;
};

/* A zeroed tokenizer of that name, to be filled in; freed by weft_tokenizer_free. */
weft_status weft__tokenizer_new(const char *name, weft_tokenizer **out);

/* The names of the two files; `path` is a folder, or the tokenizer.json itself. The caller frees
 * both, also on failure. */
weft_status weft__tokenizer_files(const char *path, char **tokenizer, char **config);

/* Reads the lists of a tokenizer.json's "model" into a zeroed model. *rest is the file without
 * them; free it whatever the status. */
weft_status weft__lists_read(const char *json, size_t length, const char *name, bpe_model *model,
                             weft__json_doc *rest);

/* Reads a tokenizer_config.json without its list of added tokens. */
weft_status weft__config_read(const char *json, size_t length, const char *name,
                              weft__json_doc *rest);

/* Reads the options of "model", and adds the tokens of "added_tokens" to its vocabulary. */
weft_status weft__model_load(const weft__json *root, bool byte_level, bpe_model *model);
void weft__model_release(bpe_model *model);

/* Reads "added_tokens" into the two sets; their ids are already in the vocabulary. */
weft_status weft__added_load(const weft__json *root, weft_tokenizer *tokenizer);

/* Reads "post_processor". */
weft_status weft__postprocessor_load(const weft__json *root, weft_tokenizer *tokenizer);

/* Reads bos, eos and pad from a tokenizer_config.json. */
weft_status weft__special_load(const weft__json *config, weft_tokenizer *tokenizer);

/* Adds a token, which the vocabulary already has, to the set that searches for it. `normalized`:
 * searched in the normalized text, so the token is normalized too. Sort the sets at the end. */
weft_status weft__added_enter(weft_tokenizer *tokenizer, const added_token *token, bool normalized);

/* The text of an id, as input of the decoder; NULL for an id without a token. */
const char *weft__token_text(const weft_tokenizer *tokenizer, int32_t id, size_t *length);

#endif
