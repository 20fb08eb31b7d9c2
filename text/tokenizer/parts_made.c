/* text/tokenizer/parts_made.c -- converts a tokenizer to the parts for GGUF metadata: its kind, its
 * tokens, and their types and scores or merges. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/pre.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

static const char mark[] = "\xE2\x96\x81";

static weft_status refuse(const weft_tokenizer *t, const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: %s: a GGUF file cannot say this", t->name, what);
}

/* ---- identifying the pre-tokenizer ----------------------------------------------------------- */

static bool same_step(const splitter_step *step, const char *pattern)
{
    if (step->prefix_rule != PREFIX_NEVER || step->replace_spaces || step->invert ||
        step->characters)
        return false;
    if (step->words)
        return step->words == weft__words_known(pattern, strlen(pattern));
    /* Splits on both sides of a match; both behaviors are equivalent here. */
    return step->pattern && step->behavior == SPLIT_ISOLATED &&
           weft__regex_is(step->pattern, pattern, false);
}

static bool same_splitter(const text_splitter *splitter, const text_pre *pre)
{
    int n = 0;
    while (n < PRE_MAX_PATTERNS && pre->patterns[n])
        n++;
    if (n != splitter->count || splitter->spelled)
        return false;
    for (int i = 0; i < n; i++) {
        if (!same_step(&splitter->steps[i], pre->patterns[i]))
            return false;
    }
    return true;
}

static bool is_nfc(const text_normalizer *normalizer)
{
    text_normalizer nfc = {0};
    const bool made = weft__normalizer_add_nfc(&nfc) == WEFT_OK;
    const bool same = made && normalizer->count == 1 &&
                      normalizer->steps[0].kind == NORMALIZE_UNICODE &&
                      normalizer->steps[0].options == nfc.steps[0].options;
    weft__normalizer_release(&nfc);
    return same;
}

static weft_status choose_pre(const weft_tokenizer *t, text_parts_made *out)
{
    bool known = false;
    const bool nfc = is_nfc(&t->normalizer);
    if (t->normalizer.count > 0 && !nfc)
        return refuse(t, "its normalizer");
    for (size_t i = 0; weft__pre_at(i); i++) {
        const text_pre *pre = weft__pre_at(i);
        if (!same_splitter(&t->splitter, pre))
            continue;
        known = true;
        if (pre->nfc != nfc || pre->ignore_merges != t->model.ignore_merges)
            continue;
        snprintf(out->pre, sizeof out->pre, "%.*s", (int)strcspn(pre->names, " "), pre->names);
        out->parts.model = "gpt2";
        out->parts.pre = out->pre;
        return WEFT_OK;
    }
    return refuse(t, known ? "its normalizer or ignore_merges with its pre-tokenizer"
                           : "its pre-tokenizer");
}

/* ---- vocabularies that write spaces as marks ------------------------------------------------ */

static bool is_mark_replace(const normalizer_step *s)
{
    return s->kind == NORMALIZE_REPLACE && s->from && s->from_length == 1 && s->from[0] == ' ' &&
           strcmp(s->content, mark) == 0;
}

/* Checks that spaces become marks, by the normalizer or by a pre-tokenizer that does not split. */
static weft_status check_marks(const weft_tokenizer *t, bool *prefix)
{
    const text_normalizer *n = &t->normalizer;
    const text_splitter *s = &t->splitter;
    const bool prepends = n->count == 2 && n->steps[0].kind == NORMALIZE_PREPEND &&
                          strcmp(n->steps[0].content, mark) == 0;
    *prefix = prepends;
    if (n->count == 0 && s->count == 1 && s->steps[0].replace_spaces && !s->steps[0].pattern &&
        strcmp(s->steps[0].prefix, mark) == 0) {
        *prefix = s->steps[0].prefix_rule != PREFIX_NEVER;
        return WEFT_OK;
    }
    if (!(n->count == 1 || prepends) || !is_mark_replace(&n->steps[n->count - 1]))
        return refuse(t, "its normalizer");
    for (int i = 0; i < s->count; i++) {
        const splitter_step *step = &s->steps[i];
        /* At this point there is no space to split at. */
        const bool idle = step->prefix_rule == PREFIX_NEVER && !step->replace_spaces &&
                          step->pattern && weft__regex_is(step->pattern, " ", true);
        if (!idle)
            return refuse(t, "its pre-tokenizer");
    }
    return WEFT_OK;
}

/* Whether a byte can be encoded: by its <0xXX> token or, in ASCII, by a token for the character. */
static bool has_byte(const bpe_model *model, int byte)
{
    const char text = (char)byte;
    return model->fallback_ids[byte] >= 0 ||
           (byte < 0x80 && weft__vocab_find_in_model(&model->vocab, &text, 1) >= 0);
}

static weft_status check_bytes(const weft_tokenizer *t)
{
    bool all = t->model.byte_fallback && !t->model.ignore_merges;
    for (int i = 0; i < 256 && all; i++)
        all = has_byte(&t->model, i);
    return all ? WEFT_OK : refuse(t, "a vocabulary without a token for each byte");
}

/* Whether every pair of tokens that spells a third has a merge; then the ranks of the results
 * determine the merges. */
static bool merges_are_whole(const bpe_model *model)
{
    const text_vocab *vocab = &model->vocab;
    for (int32_t id = 0; id < vocab->size; id++) {
        const vocab_token *token = weft__vocab_token(vocab, id);
        if (!token || !(token->flags & TOKEN_IN_MODEL))
            continue;
        const char *text = weft__vocab_text(vocab, token);
        for (size_t i = 0; i + 1 < token->length;) {
            i += (size_t)weft__utf8_step(text + i, token->length - i);
            const int32_t left = weft__vocab_find_in_model(vocab, text, i);
            const int32_t right =
                left < 0 ? -1 : weft__vocab_find_in_model(vocab, text + i, token->length - i);
            if (right >= 0 && weft__merges_rank(&model->merges, left, right) == NO_MERGE)
                return false;
        }
    }
    return true;
}

/* Tokens merged first get the highest score; those that no merge makes, the lowest. */
static weft_status put_scores(const weft_tokenizer *t, text_parts_made *out)
{
    const bpe_model *model = &t->model;
    const size_t n = out->parts.token_count;
    out->scores = weft_malloc(n * sizeof *out->scores);
    if (!out->scores)
        return weft__out_of_memory(t->name, "the lists of its tokenizer");
    for (size_t i = 0; i < n; i++)
        out->scores[i] = 1;
    size_t made = 0;
    for (size_t i = 0; i < model->merges.count; i++) {
        const int32_t whole = model->merges.list[i].left < 0 ? -1 : model->merges.list[i].whole;
        if (whole >= 0 && (size_t)whole < n && out->scores[whole] > 0)
            out->scores[whole] = -(float)made++;
    }
    for (size_t i = 0; i < n; i++)
        out->scores[i] = out->scores[i] > 0 ? -(float)made - 1 : out->scores[i];
    out->parts.scores = out->scores;
    return WEFT_OK;
}

/* "llama" if scores can represent the merges, since more programs read it; else "gemma4", which has
 * merges. */
static weft_status choose_marks(const weft_tokenizer *t, text_parts_made *out)
{
    bool prefix;
    weft_status status = check_marks(t, &prefix);
    if (!status)
        status = check_bytes(t);
    if (status)
        return status;
    out->parts.add_space_prefix = prefix ? TEXT_YES : TEXT_NO;
    if (merges_are_whole(&t->model)) {
        out->parts.model = "llama";
        out->parts.pre = "default";
        return put_scores(t, out);
    }
    out->parts.model = "gemma4";
    return WEFT_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Whether the text consists only of space marks. Merges produce such an added token anyway, and
 * other programs would decode it literally, without turning the marks into spaces. */
static bool only_marks(const char *text, size_t length)
{
    size_t i = 0;
    while (i + 3 <= length && memcmp(text + i, mark, 3) == 0)
        i += 3;
    return i == length;
}

static int32_t type_of(const weft_tokenizer *t, int32_t id, const vocab_token *token)
{
    const char *text = weft__vocab_text(&t->model.vocab, token);
    const bool byte = t->model.byte_fallback && token->length == 6 && memcmp(text, "<0x", 3) == 0;
    if (id == t->model.unknown && t->model.kind != MODEL_WORD_PIECE)
        return TEXT_UNKNOWN;
    if (token->flags & TOKEN_SPECIAL)
        return TEXT_CONTROL;
    if (token->flags & TOKEN_ADDED && !only_marks(text, token->length))
        return TEXT_USER_DEFINED;
    return byte ? TEXT_BYTE : TEXT_NORMAL;
}

/* Appends a text that is not the vocabulary's: of a padding token, or respelled. False: it is. */
static bool respelled(const weft_tokenizer *t, int32_t id, const vocab_token *token,
                      text_parts_made *out, weft_status *status)
{
    char name[24];
    const char *head, *text = "";
    size_t cut = 0, length = 0;
    if (token) {
        text = weft__vocab_text(&t->model.vocab, token);
        length = token->length;
        if (!weft__parts_respells(t, text, length, out->types[id], &head, &cut))
            return false;
    } else {
        snprintf(name, sizeof name, "[PAD%d]", (int)id);
        head = name;
    }
    *status = weft__bytes_append(&out->texts, head, strlen(head));
    if (*status == WEFT_OK)
        *status = weft__bytes_append(&out->texts, text + cut, length - cut);
    out->tokens[id].length = strlen(head) + length - cut;
    return true;
}

static weft_status put_tokens(const weft_tokenizer *t, int32_t size, text_parts_made *out)
{
    const text_vocab *vocab = &t->model.vocab;
    out->tokens = weft_calloc((size_t)size, sizeof *out->tokens);
    out->types = weft_malloc((size_t)size * sizeof *out->types);
    if (!out->tokens || !out->types)
        return weft__out_of_memory(t->name, "the lists of its tokenizer");
    weft_status status = WEFT_OK;
    /* Such texts are in a buffer that may move: only lengths now, pointers at the end. */
    for (int32_t id = 0; id < size && !status; id++) {
        const vocab_token *token = weft__vocab_token(vocab, id);
        out->types[id] = token ? type_of(t, id, token) : TEXT_UNUSED;
        if (!respelled(t, id, token, out, &status))
            out->tokens[id] = (text_string){weft__vocab_text(vocab, token), token->length};
    }
    out->parts.tokens = out->tokens;
    out->parts.types = out->types;
    out->parts.token_count = (size_t)size;
    return status;
}

/* Writes "left right" for each merge. */
static weft_status put_merges(const weft_tokenizer *t, text_parts_made *out)
{
    const text_vocab *vocab = &t->model.vocab;
    const text_merges *merges = &t->model.merges;
    out->merges = weft_calloc(merges->count ? merges->count : 1, sizeof *out->merges);
    weft_status status =
        out->merges ? WEFT_OK : weft__out_of_memory(t->name, "the lists of its tokenizer");
    size_t n = 0;
    for (size_t i = 0; i < merges->count && !status; i++) {
        if (merges->list[i].left < 0)
            continue;
        const vocab_token *left = weft__vocab_token(vocab, merges->list[i].left);
        const vocab_token *right = weft__vocab_token(vocab, merges->list[i].right);
        if (memchr(weft__vocab_text(vocab, left), ' ', left->length))
            return refuse(t, "a merge whose first part has a space");
        status = weft__bytes_append(&out->texts, weft__vocab_text(vocab, left), left->length);
        if (!status)
            status = weft__bytes_append(&out->texts, " ", 1);
        if (!status)
            status = weft__bytes_append(&out->texts, weft__vocab_text(vocab, right), right->length);
        out->merges[n++].length = (size_t)left->length + 1 + right->length;
    }
    out->parts.merges = out->merges;
    out->parts.merge_count = n;
    return status;
}

/* The buffer is complete: sets the pointers of strings that have only a length; they are
 * consecutive. */
static void place_texts(text_parts_made *out)
{
    const char *at = out->texts.data;
    for (size_t i = 0; i < out->parts.token_count; i++) {
        if (out->tokens[i].text)
            continue;
        out->tokens[i].text = at;
        at += out->tokens[i].length;
    }
    for (size_t i = 0; i < out->parts.merge_count; i++) {
        out->merges[i].text = at;
        at += out->merges[i].length;
    }
}

/* ---- around the model ----------------------------------------------------------------------- */

static weft_status put_affixes(const weft_tokenizer *t, text_parts *parts)
{
    if (t->prefix.length > 1 || t->suffix.length > 1)
        return refuse(t, "more than one token in front of or behind a text");
    if (t->prefix.length == 1 && parts->bos < 0)
        parts->bos = t->prefix.data[0];
    if (t->suffix.length == 1 && parts->eos < 0)
        parts->eos = t->suffix.data[0];
    if ((t->prefix.length == 1 && t->prefix.data[0] != parts->bos) ||
        (t->suffix.length == 1 && t->suffix.data[0] != parts->eos))
        return refuse(t, "tokens around a text that are not bos and eos");
    parts->add_bos = t->prefix.length == 1 ? TEXT_YES : TEXT_NO;
    parts->add_eos = t->suffix.length == 1 ? TEXT_YES : TEXT_NO;
    return WEFT_OK;
}

/* Texts have none, except in the pretraining of encoders. */
static bool is_mask(const weft_tokenizer *t, const vocab_token *token)
{
    static const char *const masks[] = {"<mask>", "[MASK]"};
    const char *text = token ? weft__vocab_text(&t->model.vocab, token) : "";
    const size_t n = token ? token->length : 0;
    return n == strlen(masks[0]) &&
           (memcmp(text, masks[0], n) == 0 || memcmp(text, masks[1], n) == 0);
}

static weft_status check_added(const weft_tokenizer *t)
{
    const added_set *sets[] = {&t->raw, &t->normalized};
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < sets[s]->count; i++) {
            const added_token *token = &sets[s]->tokens[i];
            const vocab_token *own = weft__vocab_token(&t->model.vocab, token->id);
            if (token->single_word || token->rstrip || (token->lstrip && !is_mask(t, own)))
                return refuse(t, "an added token with single_word, lstrip or rstrip");
            if (t->model.vocab.tokens[token->id].flags & TOKEN_RENAMED)
                return refuse(t, "an added token that the normalizer changes");
        }
    }
    return WEFT_OK;
}

weft_status weft__tokenizer_to_parts(const weft_tokenizer *t, int32_t size, text_parts_made *out)
{
    *out = (text_parts_made){.parts = {.name = t->name,
                                       .bos = t->bos,
                                       .eos = t->eos,
                                       .pad = t->pad,
                                       .cls = -1,
                                       .sep = -1,
                                       .unknown = t->model.unknown}};
    if (t->model.vocab.size > size)
        return weft_fail(WEFT_INVALID, "%s: it has %d tokens, the model rows for %d", t->name,
                         (int)t->model.vocab.size, (int)size);
    const bool pieces = t->model.kind == MODEL_WORD_PIECE, unigram = t->model.kind == MODEL_UNIGRAM;
    weft_status status = t->model.kind != MODEL_BPE && !pieces && !unigram
                             ? refuse(t, "a model that is not BPE, WordPiece or Unigram")
                         : t->model.word_suffix ? refuse(t, "its end_of_word_suffix")
                                                : check_added(t);
    if (!status && !pieces)
        status = put_affixes(t, &out->parts);
    if (!status)
        status = put_tokens(t, size, out);
    if (!status)
        status = pieces                ? weft__parts_of_word_pieces(t, out)
                 : unigram             ? weft__parts_of_unigram(t, out)
                 : t->model.byte_level ? choose_pre(t, out)
                                       : choose_marks(t, out);
    if (!status && t->model.kind == MODEL_BPE && strcmp(out->parts.model, "llama") != 0)
        status = put_merges(t, out);
    if (!status)
        place_texts(out);
    return status;
}

void weft__parts_release(text_parts_made *made)
{
    weft_free(made->tokens);
    weft_free(made->merges);
    weft_free(made->scores);
    weft_free(made->types);
    weft_free(made->charsmap);
    weft__bytes_release(&made->texts);
    *made = (text_parts_made){0};
}
