/* text/gguf/gguf.h -- tokenizers and chat templates in GGUF metadata. */
#ifndef WEFT_TEXT_GGUF_GGUF_H
#define WEFT_TEXT_GGUF_GGUF_H

#include "core/io/text.h"
#include "weft/chat.h"
#include "weft/gguf.h"
#include "weft/tokenizer.h"

/* ---- read.c --------------------------------------------------------------------------------- */

/* Reads the tokenizer from the file's metadata. The caller owns *out. */
weft_status weft__gguf_tokenizer(const char *path, weft_tokenizer **out);

/* The file's tokenizer (`tokenizer` was read from it) as the text of a tokenizer.json.
 * WEFT_UNSUPPORTED unless it is BPE. The caller frees *out in any case. */
weft_status weft__gguf_tokenizer_json(const weft_gguf *file, const weft_tokenizer *tokenizer,
                                      weft__text *out);

/* Adds the file's chat templates and its special tokens' strings. */
weft_status weft__gguf_chat(const weft_gguf *file, weft_chat *chat);

/* ---- write.c -------------------------------------------------------------------------------- */

/* The metadata entries of a tokenizer and its chat templates, with their memory. */
typedef struct weft__gguf_text weft__gguf_text;

/* Makes the entries from a checkpoint folder, padding its vocabulary to `size` tokens, or copies
 * those of a GGUF file with its description (general.name, general.license, ...). `eos` are the n
 * ids that end a sequence. WEFT_UNSUPPORTED when the format
 * cannot express the tokenizer. The caller owns *out, also on failure. */
weft_status weft__gguf_text_from(const char *source, int64_t size, const int32_t *eos, int n,
                                 weft__gguf_text **out);
const weft_gguf_value *weft__gguf_text_values(const weft__gguf_text *text, int *n);
void weft__gguf_text_free(weft__gguf_text *text); /* NULL is accepted */

#endif
