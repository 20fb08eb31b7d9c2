/* text/tokenizer/parts.c -- makes tokenizers from their parts: SentencePiece vocabularies with
 * scores, and byte-level and character-level ones with merges. */
#include "text/tokenizer/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"
#include "text/tokenizer/pre.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

static weft_status no_memory(const text_parts *p)
{
    return weft_fail(WEFT_MEMORY, "%s: out of memory for a tokenizer of %zu tokens", p->name,
                     p->token_count);
}

/* ---- checks --------------------------------------------------------------------------------- */

static weft_status check_id(const text_parts *p, const char *key, int32_t id)
{
    if (id >= -1 && (id == -1 || (size_t)id < p->token_count))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "%s: tokenizer.ggml.%s_token_id: expected an id below %zu, got %d", p->name,
                     key, p->token_count, id);
}

static weft_status check_parts(const text_parts *p, bool scores, bool merges)
{
    if (p->token_count == 0 || p->token_count > (size_t)VOCAB_MAX_ID)
        return weft_fail(WEFT_INVALID,
                         "%s: tokenizer.ggml.tokens: expected 1 to %d tokens, got %zu", p->name,
                         VOCAB_MAX_ID, p->token_count);
    if (scores && !p->scores)
        return weft_fail(WEFT_INVALID, "%s: tokenizer.ggml.scores: is missing, the model is \"%s\"",
                         p->name, weft_printable(p->model));
    if (merges && p->merge_count == 0)
        return weft_fail(WEFT_INVALID, "%s: tokenizer.ggml.merges: is missing, the model is \"%s\"",
                         p->name, weft_printable(p->model));
    if (p->merge_count >= UINT32_MAX)
        return weft_fail(WEFT_INVALID, "%s: tokenizer.ggml.merges: %zu are too many", p->name,
                         p->merge_count);
    for (size_t i = 0; i < p->token_count; i++) {
        const text_string *token = &p->tokens[i];
        const size_t valid = weft__utf8_valid(token->text, token->length);
        if (valid < token->length || token->length > (1u << 20))
            return weft_fail(WEFT_INVALID,
                             "%s: tokenizer.ggml.tokens[%zu]: invalid UTF-8 at byte "
                             "%zu of %zu",
                             p->name, i, valid, token->length);
        if (scores && isnan(p->scores[i]))
            return weft_fail(WEFT_INVALID,
                             "%s: tokenizer.ggml.scores[%zu]: expected a number, "
                             "got NaN",
                             p->name, i);
    }
    weft_status status = check_id(p, "bos", p->bos);
    if (!status)
        status = check_id(p, "eos", p->eos);
    if (!status)
        status = check_id(p, "unknown", p->unknown);
    if (!status)
        status = check_id(p, "cls", p->cls);
    if (!status)
        status = check_id(p, "seperator", p->sep); /* the key as GGUF spells it */
    return status ? status : check_id(p, "padding", p->pad);
}

/* ---- tokens --------------------------------------------------------------------------------- */

static bool is_named(const text_parts *p, int32_t id)
{
    return id == p->bos || id == p->eos || id == p->unknown || id == p->pad;
}

/* Without types, tokens with a role are control tokens. */
static int32_t type_of(const text_parts *p, int32_t id)
{
    if (p->types)
        return p->types[id];
    return is_named(p, id) ? TEXT_CONTROL : TEXT_NORMAL;
}

/* Whether converters use this name for rows of the embedding without a token. */
static bool is_padding(const text_parts *p, int32_t id)
{
    char name[24];
    const size_t n = (size_t)snprintf(name, sizeof name, "[PAD%d]", (int)id);
    return type_of(p, id) == TEXT_UNUSED && p->tokens[id].length == n &&
           memcmp(p->tokens[id].text, name, n) == 0;
}

static weft_status enter_tokens(const text_parts *p, weft_tokenizer *t)
{
    text_vocab *vocab = &t->model.vocab;
    weft_status status = WEFT_OK;
    for (int32_t id = 0; (size_t)id < p->token_count && !status; id++) {
        const int32_t type = type_of(p, id);
        if (is_padding(p, id))
            continue;
        unsigned flags = type == TEXT_CONTROL ? 0 : TOKEN_IN_MODEL;
        if (type == TEXT_CONTROL || type == TEXT_UNKNOWN)
            flags |= TOKEN_ADDED | TOKEN_SPECIAL;
        if (type == TEXT_USER_DEFINED)
            flags |= TOKEN_ADDED;
        const text_string *token = &p->tokens[id];
        status = weft__vocab_put(vocab, id, token->text, token->length, flags);
        if (!status && flags & TOKEN_ADDED && token->length > 0)
            status = weft__added_enter(
                t, &(added_token){.text = (char *)token->text, .length = token->length, .id = id},
                false);
    }
    if (!status)
        status = weft__vocab_index(vocab);
    weft__added_sort(&t->raw);
    t->bos = p->bos;
    t->eos = p->eos;
    t->pad = p->pad;
    t->model.unknown = p->unknown;
    return status;
}

/* ---- scores --------------------------------------------------------------------------------- */

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Tokens of equal score have equal rank; of their merges the leftmost comes first. */
static weft_status rank_tokens(const text_parts *p, bpe_model *model)
{
    scored *all = weft_malloc(p->token_count * sizeof *all);
    model->ranks = weft_malloc(p->token_count * sizeof *model->ranks);
    if (!all || !model->ranks) {
        weft_free(all);
        return no_memory(p);
    }
    for (size_t i = 0; i < p->token_count; i++)
        all[i] = (scored){.score = p->scores[i], .id = (int32_t)i};
    qsort(all, p->token_count, sizeof *all, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < p->token_count; i++) {
        rank += i > 0 && all[i].score < all[i - 1].score;
        model->ranks[all[i].id] = rank;
    }
    weft_free(all);
    return WEFT_OK;
}

/* ---- merges --------------------------------------------------------------------------------- */

/* "a b". A part is never empty, so a space at the very start belongs to it. */
static weft_status enter_merge(const text_parts *p, size_t index, text_buffer *joined,
                               bpe_model *model)
{
    const text_string *merge = &p->merges[index];
    const char *space = merge->length > 1 ? memchr(merge->text + 1, ' ', merge->length - 1) : NULL;
    if (!space || space + 1 == merge->text + merge->length)
        return weft_fail(WEFT_INVALID,
                         "%s: tokenizer.ggml.merges[%zu]: expected \"a b\", got "
                         "\"%s\"",
                         p->name, index, weft_printable_n(merge->text, merge->length));
    const size_t first = (size_t)(space - merge->text), second = merge->length - first - 1;
    joined->length = 0;
    weft_status status = weft__bytes_append(joined, merge->text, first);
    if (!status)
        status = weft__bytes_append(joined, space + 1, second);
    if (status)
        return status;
    const int32_t left = weft__vocab_find_in_model(&model->vocab, merge->text, first);
    const int32_t right = weft__vocab_find_in_model(&model->vocab, space + 1, second);
    const int32_t whole = weft__vocab_find_in_model(&model->vocab, joined->data, joined->length);
    /* Converters drop tokens that became special, but leave their merges, which can be ignored. */
    const bool known = left >= 0 && right >= 0 && whole >= 0;
    return weft__merges_add(&model->merges, known ? left : -1, right, whole);
}

static weft_status enter_merges(const text_parts *p, bpe_model *model)
{
    text_buffer joined = {0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < p->merge_count && !status; i++)
        status = enter_merge(p, i, &joined, model);
    weft__bytes_release(&joined);
    return status ? status : weft__merges_index(&model->merges);
}

/* ---- around the model ----------------------------------------------------------------------- */

static weft_status enter_affixes(const text_parts *p, bool bos, weft_tokenizer *t)
{
    weft_status status = WEFT_OK;
    const bool add_bos = p->add_bos == TEXT_DEFAULT ? bos : p->add_bos == TEXT_YES;
    if (add_bos && p->bos >= 0)
        status = weft__ids_append(&t->prefix, p->bos);
    if (!status && p->add_eos == TEXT_YES && p->eos >= 0)
        status = weft__ids_append(&t->suffix, p->eos);
    return status;
}

/* Spaces are written as marks; each segment between special tokens may start with one. */
static weft_status use_marks(const text_parts *p, bool prefix, weft_tokenizer *t)
{
    weft_status status = weft__normalizer_add_marks(&t->normalizer, prefix, p->name);
    if (!status)
        status = weft__decoder_from_marks(&t->decoder, prefix, p->name);
    t->model.byte_fallback = true;
    t->model.fuse_unknown = true;
    return status;
}

static weft_status use_scores(const text_parts *p, weft_tokenizer *t)
{
    weft_status status = use_marks(p, p->add_space_prefix != TEXT_NO, t);
    if (!status)
        status = rank_tokens(p, &t->model);
    return status ? status : enter_affixes(p, true, t);
}

static weft_status use_characters(const text_parts *p, weft_tokenizer *t)
{
    weft_status status = use_marks(p, p->add_space_prefix == TEXT_YES, t);
    if (!status)
        status = enter_merges(p, &t->model);
    return status ? status : enter_affixes(p, true, t);
}

static weft_status use_bytes(const text_parts *p, weft_tokenizer *t)
{
    const char *name = p->pre ? p->pre : "default";
    const text_pre *pre = weft__pre_find(name);
    const weft__json at = {.name = p->name, .path = "tokenizer.ggml.pre"};
    if (!pre)
        return weft__json_fail(&at, WEFT_UNSUPPORTED, "\"%s\" is unsupported",
                               weft_printable(name));
    t->splitter.byte_level = t->model.byte_level = true;
    t->model.ignore_merges = pre->ignore_merges;
    t->decoder.kind = DECODE_BYTES;
    t->model.unknown =
        -1; /* bytes without a token are dropped; the id in the file is for decoding */
    weft_status status = pre->nfc ? weft__normalizer_add_nfc(&t->normalizer) : WEFT_OK;
    for (int i = 0; i < PRE_MAX_PATTERNS && pre->patterns[i] && !status; i++)
        status = weft__splitter_add_pattern(&t->splitter, pre->patterns[i], &at);
    if (!status && p->add_space_prefix == TEXT_YES)
        status = weft__json_fail(&at, WEFT_UNSUPPORTED, "add_space_prefix with \"gpt2\"");
    if (!status)
        status = enter_merges(p, &t->model);
    return status ? status : enter_affixes(p, pre->add_bos, t);
}

static const struct {
    const char *model;
    bool scores, merges; /* it needs */
    weft_status (*respell)(const text_parts *p, text_buffer *texts, text_string **out);
    weft_status (*use)(const text_parts *p, weft_tokenizer *t);
} kinds[] = {
    {"llama", true, false, NULL, use_scores},
    {"gpt2", false, true, NULL, use_bytes},
    {"gemma4", false, true, NULL, use_characters},
    {"bert", false, false, weft__parts_respell, weft__parts_use_word_pieces},
    {"t5", true, false, NULL, weft__parts_use_unigram},
};

weft_status weft__tokenizer_from_parts(const text_parts *parts, weft_tokenizer **out)
{
    *out = NULL;
    size_t kind = 0;
    if (strcmp(parts->model, "no_vocab") == 0)
        return weft_fail(WEFT_UNSUPPORTED, "%s: the file says that it has no tokenizer (no_vocab)",
                         parts->name);
    while (kind < sizeof kinds / sizeof *kinds && strcmp(parts->model, kinds[kind].model) != 0)
        kind++;
    if (kind == sizeof kinds / sizeof *kinds)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: tokenizer.ggml.model: \"%s\" is unsupported "
                         "(supported: llama, gpt2, gemma4, bert, t5)",
                         parts->name, weft_printable(parts->model));
    weft_status status = check_parts(parts, kinds[kind].scores, kinds[kind].merges);
    if (status)
        return status;
    text_parts p = *parts;
    text_buffer texts = {0};
    text_string *spelled = NULL;
    weft_tokenizer *t = NULL;
    if (kinds[kind].respell) {
        status = kinds[kind].respell(parts, &texts, &spelled);
        p.tokens = spelled;
    }
    if (!status)
        status = weft__tokenizer_new(parts->name, &t);
    if (!status)
        status = enter_tokens(&p, t);
    if (!status)
        status = kinds[kind].use(parts, t);
    if (!status)
        weft__bpe_prepare(&t->model);
    weft__bytes_release(&texts);
    weft_free(spelled);
    if (status)
        weft_tokenizer_free(t);
    else
        *out = t;
    return status;
}
