/* text/tokenizer/parts_made_pieces.c -- the parts of tokenizers without merges for GGUF metadata:
 * WordPiece ("bert") and Unigram ("t5"). */
#include <string.h>

#include "core/failure.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

static const char mark[] = "\xE2\x96\x81";

static weft_status refuse(const weft_tokenizer *t, const char *what)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: %s: a GGUF file cannot say this", t->name, what);
}

static bool splits_at(const splitter_step *step, split_characters characters)
{
    return step->characters == characters && !step->pattern && !step->words &&
           !step->replace_spaces && step->prefix_rule == PREFIX_NEVER;
}

/* ---- WordPiece ------------------------------------------------------------------------------ */

bool weft__parts_respells(const weft_tokenizer *t, const char *text, size_t length, int32_t type,
                          const char **head, size_t *cut)
{
    const bool inner = length >= 2 && memcmp(text, "##", 2) == 0;
    if (t->model.kind != MODEL_WORD_PIECE || type == TEXT_CONTROL)
        return false;
    *head = inner ? "" : mark;
    *cut = inner ? 2 : 0;
    return true;
}

weft_status weft__parts_of_word_pieces(const weft_tokenizer *t, text_parts_made *out)
{
    enum { LONGEST_WORD = 100 };
    const text_splitter *s = &t->splitter;
    const normalizer_step *n = &t->normalizer.steps[0];
    text_parts *p = &out->parts;
    if (t->normalizer.count != 1 || n->kind != NORMALIZE_BERT || !n->bert.clean || !n->bert.chinese)
        return refuse(t, "its normalizer");
    if (s->count != 2 || !splits_at(&s->steps[0], SPLIT_AT_SPACES) ||
        !splits_at(&s->steps[1], SPLIT_AT_PUNCTUATION) || s->steps[1].behavior != SPLIT_ISOLATED)
        return refuse(t, "its pre-tokenizer");
    if (t->model.subword_prefix == NULL || strcmp(t->model.subword_prefix, "##") != 0 ||
        t->model.longest_word != LONGEST_WORD)
        return refuse(t, "continuing_subword_prefix or max_input_chars_per_word");
    if (t->prefix.length > 1 || t->suffix.length > 1)
        return refuse(t, "more than one token in front of or behind a text");
    p->model = "bert";
    p->lowercase = n->bert.lowercase ? TEXT_YES : TEXT_NO;
    p->strip_accents = n->bert.accents ? TEXT_YES : TEXT_NO;
    p->cls = t->prefix.length == 1 ? t->prefix.data[0] : -1;
    p->sep = t->suffix.length == 1 ? t->suffix.data[0] : -1;
    p->bos = p->bos >= 0 ? p->bos : p->cls; /* which llama.cpp puts in front of a text */
    p->add_bos = p->cls >= 0 ? TEXT_YES : TEXT_NO;
    p->add_eos = p->sep >= 0 ? TEXT_DEFAULT : TEXT_NO; /* the other token is always added */
    return WEFT_OK;
}

/* ---- Unigram -------------------------------------------------------------------------------- */

/* The compiled rules as SentencePiece stores them. */
static weft_status put_charsmap(const weft_tokenizer *t, const text_charsmap *map,
                                text_parts_made *out)
{
    const size_t trie = 4 * map->unit_count, size = 4 + trie + map->text_bytes;
    out->charsmap = weft_malloc(size);
    if (out->charsmap == NULL)
        return weft__out_of_memory(t->name, "its precompiled_charsmap");
    for (size_t i = 0; i <= map->unit_count; i++) {
        const uint32_t word = i == 0 ? (uint32_t)trie : map->units[i - 1];
        for (int b = 0; b < 4; b++)
            out->charsmap[4 * i + (size_t)b] = (unsigned char)(word >> 8 * b);
    }
    memcpy(out->charsmap + 4 + trie, map->texts, map->text_bytes);
    out->parts.charsmap = out->charsmap;
    out->parts.charsmap_size = size;
    return WEFT_OK;
}

static bool joins_spaces(const normalizer_step *s)
{
    return s->kind == NORMALIZE_REPLACE && s->pattern &&
           weft__regex_is(s->pattern, " {2,}", false) &&
           (strcmp(s->content, " ") == 0 || strcmp(s->content, mark) == 0);
}

/* Compiled rules; then spaces at the end may be removed, and several joined. */
static weft_status put_normalizer(const weft_tokenizer *t, text_parts_made *out)
{
    const text_normalizer *n = &t->normalizer;
    int i = 0;
    weft_status status = WEFT_OK;
    if (i < n->count && n->steps[i].kind == NORMALIZE_CHARSMAP)
        status = put_charsmap(t, n->steps[i++].charsmap, out);
    if (i < n->count && n->steps[i].kind == NORMALIZE_STRIP && n->steps[i].right)
        i++;
    if (i < n->count && joins_spaces(&n->steps[i])) {
        out->parts.remove_spaces = TEXT_YES;
        i++;
    }
    return status == WEFT_OK && i < n->count ? refuse(t, "its normalizer") : status;
}

static weft_status put_unigram_scores(const weft_tokenizer *t, text_parts_made *out)
{
    const unigram_model *model = &t->model.unigram;
    const size_t n = out->parts.token_count;
    out->scores = weft_calloc(n ? n : 1, sizeof *out->scores);
    if (out->scores == NULL)
        return weft__out_of_memory(t->name, "the lists of its tokenizer");
    for (size_t i = 0; i < n && i < model->score_count; i++)
        out->scores[i] = (float)model->scores[i];
    out->parts.scores = out->scores;
    return WEFT_OK;
}

weft_status weft__parts_of_unigram(const weft_tokenizer *t, text_parts_made *out)
{
    const text_splitter *s = &t->splitter;
    const int last = s->count - 1;
    const splitter_step *step = &s->steps[last < 0 ? 0 : last];
    weft_status status = put_normalizer(t, out);
    if (status)
        return status;
    if (last == 1 && splits_at(&s->steps[0], SPLIT_AT_SPACES))
        out->parts.remove_spaces = TEXT_YES;
    else if (last != 0)
        return refuse(t, "its pre-tokenizer");
    if (!step->replace_spaces || strcmp(step->prefix, mark) != 0)
        return refuse(t, "its pre-tokenizer");
    out->parts.model = "t5";
    out->parts.add_space_prefix = step->prefix_rule == PREFIX_NEVER ? TEXT_NO : TEXT_YES;
    return put_unigram_scores(t, out);
}
