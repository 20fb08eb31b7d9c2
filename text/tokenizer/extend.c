/* text/tokenizer/extend.c -- adds tokens to a tokenizer: appends them to the lists in its two
 * files, and reads the result. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "text/gguf/gguf.h"
#include "text/tokenizer/scan.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/io.h"
#include "weft/memory.h"

/* The contents of the two files; NULL: there is no such file. */
typedef struct files {
    char *json, *config;
    size_t length, config_length;
} files;

static void files_free(files *f)
{
    weft_free(f->json);
    weft_free(f->config);
}

/* ---- the new tokens -------------------------------------------------------------------------- */

static weft_status check_twice(const char *const *tokens, int n)
{
    const char **sorted = weft_calloc((size_t)n, sizeof *sorted);
    weft_status status = sorted ? WEFT_OK : weft__out_of_memory("tokenizer", "its new tokens");
    for (int i = 0; status == WEFT_OK && i < n; i++)
        sorted[i] = tokens[i];
    if (status == WEFT_OK)
        qsort(sorted, (size_t)n, sizeof *sorted, weft__by_text);
    for (int i = 1; status == WEFT_OK && i < n; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = weft_fail(WEFT_INVALID, "tokenizer: new token '%s' is given twice",
                               weft_printable(sorted[i]));
    }
    weft_free(sorted);
    return status;
}

static weft_status check_tokens(const weft_tokenizer *base, const char *const *tokens, int n)
{
    if (n < 1)
        return weft_fail(WEFT_INVALID, "%s: new tokens: expected at least one", base->name);
    if (n > VOCAB_MAX_ID - base->model.vocab.size)
        return weft_fail(WEFT_INVALID, "%s: %d new tokens are too many", base->name, n);
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(tokens[i]);
        const int32_t known = weft_tokenizer_token_to_id(base, tokens[i]);
        if (length == 0)
            return weft_fail(WEFT_INVALID, "tokenizer: a new token is empty");
        if (weft__utf8_valid(tokens[i], length) < length)
            return weft_fail(WEFT_INVALID, "tokenizer: new token '%s': invalid UTF-8",
                             weft_printable(tokens[i]));
        if (known >= 0)
            return weft_fail(WEFT_INVALID, "%s: has the token '%s' already, with id %d", base->name,
                             weft_printable(tokens[i]), known);
    }
    return check_twice(tokens, n);
}

/* ---- the files ------------------------------------------------------------------------------ */

static weft_status read_gguf(const char *path, const weft_tokenizer *base, files *out)
{
    weft_gguf *file;
    weft__text json = {0};
    weft_status status = weft_gguf_open(path, &file);
    if (status != WEFT_OK)
        return status;
    status = weft__gguf_tokenizer_json(file, base, &json);
    weft_gguf_close(file);
    out->json = json.at;
    out->length = json.n;
    return status;
}

static weft_status read_files(const char *path, const weft_tokenizer *base, files *out)
{
    char *gguf = NULL, *name = NULL, *config = NULL;
    weft_status status = weft__gguf_find(path, &gguf);
    if (status == WEFT_OK && gguf)
        status = read_gguf(gguf, base, out);
    else if (status == WEFT_OK) {
        status = weft__tokenizer_files(path, &name, &config);
        if (status == WEFT_OK)
            status = weft_file_read(name, WEFT__JSON_MAX_BYTES, &out->json, &out->length);
        if (status == WEFT_OK && access(config, F_OK) == 0)
            status =
                weft_file_read(config, WEFT__JSON_MAX_BYTES, &out->config, &out->config_length);
    }
    weft_free(gguf);
    weft_free(name);
    weft_free(config);
    return status;
}

/* ---- their lists ---------------------------------------------------------------------------- */

static weft_status note_list(void *context, json_scan *scan)
{
    return weft__scan_value(scan, context) ? WEFT_OK : WEFT_INVALID;
}

/* Finds the text of a top-level member that begins with `open`; NULL if absent. The file was read
 * before, so it is well formed. */
static weft_status find_list(const char *text, size_t length, const char *key, char open,
                             text_string *out)
{
    const scan_member member = {NULL, key, open, note_list};
    json_scan scan = {.at = text, .end = text + length};
    text_buffer rest = {0};
    *out = (text_string){0};
    const weft_status status = weft__scan_outline(&scan, &member, 1, out, &rest);
    weft__bytes_release(&rest);
    return status == WEFT_OK ? status : weft__out_of_memory("tokenizer", "its new tokens");
}

/* Appends the new tokens as elements or members, with ids from `first` on. */
static void write_tokens(weft__text *out, const char *const *tokens, int n, int32_t first,
                         bool members, bool empty)
{
    for (int i = 0; i < n; i++) {
        weft__text_format(out, "%s\n", i == 0 && empty ? "" : ",");
        if (members)
            weft__text_format(out, "\"%" PRId32 "\": {\"content\": ", first + i);
        else
            weft__text_format(out, "{\"id\": %" PRId32 ", \"content\": ", first + i);
        weft__text_quote_bytes(out, tokens[i], strlen(tokens[i]));
        weft__text_format(out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                               "\"normalized\": true, \"special\": false}");
    }
}

/* Inserts the tokens at the end of the list at `key`. */
static weft_status splice(char **text, size_t *length, const char *key, bool members,
                          const char *const *tokens, int n, int32_t first)
{
    text_string list;
    weft__text out = {0};
    weft_status status = find_list(*text, *length, key, members ? '{' : '[', &list);
    if (status != WEFT_OK || (list.text == NULL && members))
        return status;
    const char *brace = memchr(*text, '{', *length); /* opening brace of the file */
    const char *end = list.text ? list.text + list.length - 1 : brace + 1;
    size_t before = (size_t)(end - *text);
    weft__text_append(&out, *text, before);
    if (list.text == NULL)
        weft__text_format(&out, "\n\"%s\": [", key);
    const bool empty = list.text == NULL || memchr(list.text, '"', list.length) == NULL;
    write_tokens(&out, tokens, n, first, members, empty);
    if (list.text == NULL)
        weft__text_format(&out, "\n],");
    weft__text_append(&out, end, *length - before);
    if (out.failed) {
        weft_free(out.at);
        return weft__out_of_memory("tokenizer", "its new tokens");
    }
    weft_free(*text);
    *text = out.at;
    *length = out.n;
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

/* Checks that the tokenizers library gives the first new token its id. It numbers a token that is
 * not in model.vocab by the number of tokens there, or after the last added token. */
static weft_status check_first(const weft_tokenizer *t, int32_t first)
{
    int32_t next = 0, added = 0;
    for (int32_t id = 0; id < first; id++) {
        const vocab_token *token = weft__vocab_token(&t->model.vocab, id);
        next += token && token->flags & TOKEN_IN_MODEL;
        added = token && token->flags & TOKEN_ADDED ? id + 1 : added;
    }
    next = added > next ? added : next;
    return next == first
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED,
                           "%s: its vocabulary has gaps: other programs would give new tokens "
                           "ids from %d on, which are in use below %d",
                           t->name, (int)next, (int)first);
}

/* Makes the tokenizer from the files' texts. */
static weft_status make(const weft_tokenizer *base, files *f, const char *const *tokens, int n,
                        weft_tokenizer **out)
{
    const int32_t first = base->model.vocab.size;
    weft_status status = splice(&f->json, &f->length, "added_tokens", false, tokens, n, first);
    if (status == WEFT_OK && f->config)
        status =
            splice(&f->config, &f->config_length, "added_tokens_decoder", true, tokens, n, first);
    if (status == WEFT_OK)
        status =
            weft_tokenizer_parse(f->json, f->length, f->config, f->config_length, base->name, out);
    if (status == WEFT_OK && (*out)->model.vocab.size != first + n)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: expected a list added_tokens", base->name);
    if (status == WEFT_OK)
        status = check_first(*out, first);
    if (status != WEFT_OK) {
        weft_tokenizer_free(*out);
        *out = NULL;
        return status;
    }
    weft_tokenizer *t = *out;
    t->bos = base->bos; /* a GGUF file has no configuration with these */
    t->eos = base->eos;
    t->pad = base->pad;
    t->json = f->json;
    t->json_length = f->length;
    t->config = f->config;
    t->config_length = f->config_length;
    t->further = n;
    *f = (files){0};
    return WEFT_OK;
}

weft_status weft_tokenizer_extend(const char *path, const char *const *tokens, int n,
                                  weft_tokenizer **out)
{
    weft_tokenizer *base = NULL;
    files f = {0};
    *out = NULL;
    weft_status status = weft_tokenizer_load(path, &base);
    if (status == WEFT_OK)
        status = check_tokens(base, tokens, n);
    if (status == WEFT_OK)
        status = read_files(path, base, &f);
    if (status == WEFT_OK)
        status = make(base, &f, tokens, n, out);
    files_free(&f);
    weft_tokenizer_free(base);
    return status;
}

int32_t weft_tokenizer_further(const weft_tokenizer *tokenizer)
{
    return tokenizer->further;
}

weft_status weft_tokenizer_save(const weft_tokenizer *t, const char *folder)
{
    if (t->json == NULL)
        return weft_fail(WEFT_INVALID, "%s: tokenizer: expected one of weft_tokenizer_extend",
                         t->name);
    weft__folder f;
    weft_status status = weft__folder_open_new(folder, &f);
    char *name = weft_format("%s/tokenizer.json", status == WEFT_OK ? f.path : "");
    char *config = weft_format("%s/tokenizer_config.json", status == WEFT_OK ? f.path : "");
    if (status == WEFT_OK && (name == NULL || config == NULL))
        status = weft__out_of_memory(folder, "the tokenizer's files");
    if (status == WEFT_OK)
        status = weft_file_write(name, t->json, t->json_length);
    if (status == WEFT_OK && t->config)
        status = weft_file_write(config, t->config, t->config_length);
    weft_free(name);
    weft_free(config);
    return weft__folder_replace(&f, folder, status);
}
