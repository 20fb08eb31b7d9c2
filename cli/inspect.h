/* cli/inspect.h -- shared by inspect.c (the command) and what it can show: inspect_attention.c,
 * inspect_adapter.c and inspect_loss.c. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "cli/common.h"
#include "cli/svg.h"

typedef enum inspect_what {
    INSPECT_SHAPES,
    INSPECT_ATTENTION,
    INSPECT_ADAPTER,
    INSPECT_LOSS
} inspect_what;

typedef struct inspect_values {
    const char *model, *prompt, *file, *adapter, *backend, *out, *svg, *layers;
    cli_place place;
    int show; /* inspect_what; -1: INSPECT_ATTENTION with --svg, else INSPECT_SHAPES */
    bool no_special, force, json;
} inspect_values;

/* The tokens of a text. */
typedef struct inspect_tokens {
    int32_t *ids;
    char **texts; /* what each token adds to the text; "" where a character is not complete yet */
    size_t n;
} inspect_tokens;

/* Encodes the text with the model's tokenizer, or the adapter's; free with inspect_tokens_free,
 * also after a failure. */
WEFT_NODISCARD weft_status inspect_tokens_read(const inspect_values *v, const char *path,
                                               const char *text, size_t length,
                                               inspect_tokens *out);
void inspect_tokens_free(inspect_tokens *tokens);

/* Writes a token's text as a person should see it, on one line: line breaks and tabs as signs, at
 * most `columns` columns. The caller frees the result with free; NULL: out of memory. */
char *inspect_token_shown(const char *text, int columns);

/* Each computes what it shows, prints it, and draws it if v->svg is given. */
weft_status inspect_attention(const inspect_values *v, const char *path,
                              const inspect_tokens *tokens);
weft_status inspect_adapter(const inspect_values *v, const char *path);
weft_status inspect_loss(const inspect_values *v, const char *path, const inspect_tokens *tokens);

/* The last `parts` names of a path, as pictures show models and adapters. */
const char *inspect_name(const char *path, int parts);

#endif
