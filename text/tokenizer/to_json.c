/* text/tokenizer/to_json.c -- writes a tokenizer as a tokenizer.json. */
#include "text/tokenizer/to_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "core/list.h"
#include "text/tokenizer/pre.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

#define MARK "\xE2\x96\x81"

typedef struct writer {
    const weft_tokenizer *t;
    weft__text *out;
    weft_status status;
} writer;

static void put(writer *w, const char *text)
{
    weft__text_append(w->out, text, strlen(text));
}

static void quote(writer *w, const char *text, size_t length)
{
    if (!w->status)
        weft__text_quote_bytes(w->out, text, length);
}

static void quote_token(writer *w, int32_t id)
{
    const vocab_token *token = weft__vocab_token(&w->t->model.vocab, id);
    quote(w, token ? weft__vocab_text(&w->t->model.vocab, token) : "", token ? token->length : 0);
}

/* ---- tokens --------------------------------------------------------------------------------- */

static void put_added(writer *w)
{
    const text_vocab *vocab = &w->t->model.vocab;
    int n = 0;
    put(w, "\"added_tokens\":[");
    for (int32_t id = 0; id < vocab->size; id++) {
        const vocab_token *token = weft__vocab_token(vocab, id);
        if (!token || !(token->flags & TOKEN_ADDED) || token->length == 0)
            continue;
        weft__text_format(w->out, "%s\n{\"id\":%d,\"content\":", n++ ? "," : "", (int)id);
        quote_token(w, id);
        weft__text_format(w->out,
                          ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                          "\"normalized\":false,\"special\":%s}",
                          token->flags & TOKEN_SPECIAL ? "true" : "false");
    }
    put(w, "],\n");
}

/* The key of an id in "vocab": its token, or a name for an id without one. Keys must be unique. */
static text_string key_of(writer *w, int32_t id, char name[24])
{
    const text_vocab *vocab = &w->t->model.vocab;
    const vocab_token *token = weft__vocab_token(vocab, id);
    text_string key = {name, (size_t)snprintf(name, 24, "[PAD%d]", (int)id)};
    if (token && token->length > 0)
        key = (text_string){weft__vocab_text(vocab, token), token->length};
    const int32_t found = weft__vocab_find(vocab, key.text, key.length);
    if (!w->status && found >= 0 && found != id)
        w->status =
            weft_fail(WEFT_UNSUPPORTED,
                      "%s: tokens %d and %d are both '%s': tokenizer.json has one id for "
                      "each text",
                      w->t->name, (int)id, (int)found, weft_printable_n(key.text, key.length));
    return key;
}

/* The tokenizers library takes the id of an added token from here, if it is here, and otherwise
 * numbers it by the size of this list, and ignores the ids of "added_tokens". So every id is
 * listed. */
static void put_vocab(writer *w)
{
    char name[24];
    put(w, "\"vocab\":{");
    for (int32_t id = 0; id < w->t->model.vocab.size && !w->status; id++) {
        const text_string key = key_of(w, id, name);
        put(w, id ? ",\n" : "\n");
        quote(w, key.text, key.length);
        weft__text_format(w->out, ":%d", (int)id);
    }
    put(w, "},\n");
}

/* ---- merges --------------------------------------------------------------------------------- */

static void put_merge(writer *w, int32_t left, int32_t right, bool first)
{
    put(w, first ? "\n[" : ",\n[");
    quote_token(w, left);
    put(w, ",");
    quote_token(w, right);
    put(w, "]");
}

static void put_listed(writer *w)
{
    const text_merges *merges = &w->t->model.merges;
    bool first = true;
    for (size_t i = 0; i < merges->count; i++) {
        if (merges->list[i].left < 0)
            continue;
        put_merge(w, merges->list[i].left, merges->list[i].right, first);
        first = false;
    }
}

typedef struct split {
    uint32_t rank;
    int32_t left, right;
} split;

static int by_rank(const void *a, const void *b)
{
    const split *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

typedef struct splits {
    split *list;
    size_t count;
} splits;

static weft_status add_splits(const bpe_model *model, int32_t id, splits *all)
{
    const vocab_token *token = weft__vocab_token(&model->vocab, id);
    if (!token || !(token->flags & TOKEN_IN_MODEL))
        return WEFT_OK;
    const char *text = weft__vocab_text(&model->vocab, token);
    for (size_t i = 0; i < token->length;) {
        i += (size_t)weft__utf8_step(text + i, token->length - i);
        const int32_t left =
            i < token->length ? weft__vocab_find_in_model(&model->vocab, text, i) : -1;
        const int32_t right =
            left < 0 ? -1 : weft__vocab_find_in_model(&model->vocab, text + i, token->length - i);
        if (right < 0)
            continue;
        if (!weft__list_more(all->list, all->count))
            return weft__out_of_memory("tokenizer", "its merges");
        all->list[all->count++] = (split){model->ranks[id], left, right};
    }
    return WEFT_OK;
}

/* With token ranks, every pair that spells a token is a merge, in the order of the results. */
static void put_ranked(writer *w)
{
    const bpe_model *model = &w->t->model;
    splits all = {0};
    for (int32_t id = 0; id < model->vocab.size && !w->status; id++)
        w->status = add_splits(model, id, &all);
    if (!w->status && all.count > 0)
        qsort(all.list, all.count, sizeof *all.list, by_rank);
    for (size_t i = 0; i < all.count && !w->status; i++)
        put_merge(w, all.list[i].left, all.list[i].right, i == 0);
    weft_free(all.list);
}

static void put_model(writer *w)
{
    const bpe_model *m = &w->t->model;
    put(w, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (m->unknown >= 0 && !m->byte_level)
        quote_token(w, m->unknown);
    else
        put(w, "null");
    weft__text_format(w->out,
                      ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                      "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":%s,\n",
                      m->fuse_unknown ? "true" : "false", m->byte_fallback ? "true" : "false",
                      m->ignore_merges ? "true" : "false");
    put_vocab(w);
    put(w, "\"merges\":[");
    if (m->ranks)
        put_ranked(w);
    else
        put_listed(w);
    put(w, "]}");
}

/* ---- other members --------------------------------------------------------------------------- */

static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                                 "\"trim_offsets\":false,\"use_regex\":false}";

static void put_bytes(writer *w, const text_pre *pre)
{
    weft__text_format(w->out, "\"normalizer\":%s,\n",
                      pre && pre->nfc ? "{\"type\":\"NFC\"}" : "null");
    put(w, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; pre && i < PRE_MAX_PATTERNS && pre->patterns[i]; i++) {
        put(w, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        weft__text_quote(w->out, pre->patterns[i]);
        put(w, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    weft__text_format(w->out, "%s]},\n\"decoder\":%s,\n", byte_level, byte_level);
}

static void put_marks(writer *w)
{
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                  "\"content\":\"" MARK "\"}";
    const bool prefix = w->t->decoder.strip_start > 0;
    if (prefix)
        weft__text_format(w->out,
                          "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                          "\"Prepend\",\"prepend\":\"" MARK "\"},%s]},\n",
                          replace);
    else
        weft__text_format(w->out, "\"normalizer\":%s,\n", replace);
    weft__text_format(w->out,
                      "\"pre_tokenizer\":null,\n\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":"
                      "\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},\n",
                      prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
                             : "");
}

static void put_special(writer *w, int32_t id, int type)
{
    put(w, "{\"SpecialToken\":{\"id\":");
    quote_token(w, id);
    weft__text_format(w->out, ",\"type_id\":%d}}", type);
}

/* Writes the text with the pieces before and after it. */
static void put_sequence(writer *w, const char *name, int type)
{
    const weft_tokenizer *t = w->t;
    for (size_t i = 0; i < t->prefix.length; i++) {
        put_special(w, t->prefix.data[i], type);
        put(w, ",");
    }
    weft__text_format(w->out, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}", name, type);
    for (size_t i = 0; i < t->suffix.length; i++) {
        put(w, ",");
        put_special(w, t->suffix.data[i], type);
    }
}

static void put_name(writer *w, int32_t id, bool first)
{
    put(w, first ? "" : ",");
    quote_token(w, id);
    put(w, ":{\"id\":");
    quote_token(w, id);
    weft__text_format(w->out, ",\"ids\":[%d],\"tokens\":[", (int)id);
    quote_token(w, id);
    put(w, "]}");
}

static void put_processor(writer *w)
{
    const weft_tokenizer *t = w->t;
    if (t->prefix.length + t->suffix.length == 0) {
        put(w, "\"post_processor\":null,\n");
        return;
    }
    put(w, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    put_sequence(w, "A", 0);
    put(w, "],\"pair\":[");
    put_sequence(w, "A", 0);
    put(w, ",");
    put_sequence(w, "B", 1);
    put(w, "],\"special_tokens\":{");
    if (t->prefix.length > 0)
        put_name(w, t->prefix.data[0], true);
    if (t->suffix.length > 0 && !(t->prefix.length > 0 && t->prefix.data[0] == t->suffix.data[0]))
        put_name(w, t->suffix.data[0], t->prefix.length == 0);
    put(w, "}},\n");
}

weft_status weft__tokenizer_to_json(const weft_tokenizer *t, const char *pre, weft__text *out)
{
    writer w = {.t = t, .out = out};
    if (t->model.kind != MODEL_BPE)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: its tokenizer cannot be written as tokenizer.json: only BPE can",
                         t->name);
    put(&w, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    put_added(&w);
    if (t->model.byte_level)
        put_bytes(&w, weft__pre_find(pre ? pre : "default"));
    else
        put_marks(&w);
    put_processor(&w);
    put_model(&w);
    put(&w, "}\n");
    return w.status || !out->failed ? w.status : weft__out_of_memory(t->name, NULL);
}
