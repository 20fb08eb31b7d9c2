/* text/tokenizer/pretokenize.c -- the pre-tokenizers: Split, ByteLevel, Digits, Metaspace,
 * WhitespaceSplit, Punctuation, BertPreTokenizer, Sequence.
 */
#include "text/tokenizer/pretokenize.h"

#include <string.h>

#include "core/io/utf8.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/categories.h"
#include "text/tokenizer/classes.h"
#include "weft/memory.h"

/* ---- loading -------------------------------------------------------------------------------- */

static const char *const behavior_names[] = {
    [SPLIT_REMOVED] = "Removed",
    [SPLIT_ISOLATED] = "Isolated",
    [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
    [SPLIT_CONTIGUOUS] = "Contiguous",
};

/* Detects known patterns that isolate their matches; these need no regex engine. */
static weft_status find_known(const weft__json *at, splitter_step *step)
{
    weft__json pattern;
    const char *regex = NULL;
    weft_status status = weft__json_get(at, "pattern", &pattern);
    if (!status)
        status = weft__json_find_string(&pattern, "Regex", &regex);
    if (!status && regex)
        step->words = weft__words_known(regex, strlen(regex));
    return status;
}

static weft_status load_split(const weft__json *at, splitter_step *step, text_splitter *out)
{
    (void)out;
    const char *name = NULL;
    weft_status status = find_known(at, step);
    if (!status)
        status = weft__json_find_bool(at, "invert", &step->invert);
    if (!status)
        status = weft__json_get_string(at, "behavior", &name);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof behavior_names / sizeof *behavior_names; i++) {
        if (strcmp(name, behavior_names[i]) != 0)
            continue;
        step->behavior = (split_behavior)i;
        if (step->words && step->behavior == SPLIT_ISOLATED && !step->invert)
            return WEFT_OK;
        step->words = WORDS_UNKNOWN;
        return weft__regex_from_json(at, "pattern", &step->pattern);
    }
    return weft__json_fail(at, WEFT_UNSUPPORTED, "behavior \"%s\" is unsupported",
                           weft_printable(name));
}

static weft_status load_spaces(const weft__json *at, splitter_step *step, text_splitter *out)
{
    (void)at;
    (void)out;
    step->characters = SPLIT_AT_SPACES;
    step->behavior = SPLIT_REMOVED;
    return WEFT_OK;
}

static weft_status load_punctuation(const weft__json *at, splitter_step *step, text_splitter *out)
{
    const char *name = "Isolated";
    (void)out;
    step->characters = SPLIT_AT_PUNCTUATION;
    const weft_status status = weft__json_find_string(at, "behavior", &name);
    for (size_t i = 0; !status && i < sizeof behavior_names / sizeof *behavior_names; i++) {
        if (strcmp(name, behavior_names[i]) == 0) {
            step->behavior = (split_behavior)i;
            return WEFT_OK;
        }
    }
    return status ? status
                  : weft__json_fail(at, WEFT_UNSUPPORTED, "behavior \"%s\" is unsupported",
                                    weft_printable(name));
}

static weft_status load_bert_punctuation(const weft__json *at, splitter_step *step,
                                         text_splitter *out)
{
    (void)at;
    (void)out;
    step->characters = SPLIT_AT_PUNCTUATION;
    step->behavior = SPLIT_ISOLATED;
    return WEFT_OK;
}

static weft_status load_byte_level(const weft__json *at, splitter_step *step, text_splitter *out)
{
    bool prefix = true, cut = true;
    weft_status status = weft__json_find_bool(at, "add_prefix_space", &prefix);
    if (!status)
        status = weft__json_find_bool(at, "use_regex", &cut);
    if (!status && cut) /* as GPT-2 does (Radford et al. 2019, encoder.py) */
        step->words = WORDS_GPT2;
    step->prefix[0] = ' ';
    step->prefix_rule = prefix ? PREFIX_ALWAYS : PREFIX_NEVER;
    step->behavior = SPLIT_ISOLATED;
    out->byte_level = true;
    return status;
}

static weft_status load_digits(const weft__json *at, splitter_step *step, text_splitter *out)
{
    (void)out;
    bool single = false;
    const weft_status status = weft__json_find_bool(at, "individual_digits", &single);
    step->behavior = single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return status ? status : weft__regex_new("\\p{N}", 5, false, at, &step->pattern);
}

static weft_status load_metaspace(const weft__json *at, splitter_step *step, text_splitter *out)
{
    (void)out;
    bool split = true, prefix = true;
    const char *scheme = NULL, *mark = "\xE2\x96\x81";
    weft_status status = weft__json_find_string(at, "replacement", &mark);
    if (!status)
        status = weft__json_find_string(at, "prepend_scheme", &scheme);
    if (!status)
        status = weft__json_find_bool(at, "add_prefix_space", &prefix);
    if (!status)
        status = weft__json_find_bool(at, "split", &split);
    if (status)
        return status;
    const size_t size = strlen(mark);
    if (size == 0 || weft__utf8_step(mark, size) != (int)size)
        return weft__json_fail(at, WEFT_INVALID, "replacement: expected one character");
    memcpy(step->prefix, mark, size + 1);
    step->replace_spaces = true;
    if (!scheme)
        scheme = prefix ? "always" : "never"; /* older files have no prepend_scheme */
    if (strcmp(scheme, "always") == 0)
        step->prefix_rule = PREFIX_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        step->prefix_rule = PREFIX_FIRST;
    else if (strcmp(scheme, "never") != 0)
        return weft__json_fail(at, WEFT_INVALID, "prepend_scheme \"%s\" is unknown",
                               weft_printable(scheme));
    step->behavior = SPLIT_MERGED_WITH_NEXT;
    return split ? weft__regex_new(mark, size, true, at, &step->pattern) : WEFT_OK;
}

/* A type of several steps has one row per step. */
static const struct {
    const char *type;
    weft_status (*load)(const weft__json *at, splitter_step *step, text_splitter *out);
} step_types[] = {
    {"Split", load_split},
    {"ByteLevel", load_byte_level},
    {"Digits", load_digits},
    {"Metaspace", load_metaspace},
    {"WhitespaceSplit", load_spaces},
    {"Punctuation", load_punctuation},
    {"BertPreTokenizer", load_spaces},
    {"BertPreTokenizer", load_bert_punctuation},
};

static weft_status load_step(const weft__json *at, const char *type, text_splitter *out)
{
    bool known = false;
    const bool spells = out->byte_level && !out->spelled;
    if (out->byte_level && strcmp(type, "Split") != 0 && strcmp(type, "Digits") != 0 &&
        strcmp(type, "Punctuation") != 0 && strcmp(type, "WhitespaceSplit") != 0)
        return weft__json_fail(at, WEFT_UNSUPPORTED,
                               "a pre-tokenizer (\"%s\") behind ByteLevel is unsupported",
                               weft_printable(type));
    out->spelled = out->byte_level;
    for (size_t i = 0; i < sizeof step_types / sizeof *step_types; i++) {
        if (strcmp(type, step_types[i].type) != 0)
            continue;
        if (out->count == SPLITTER_MAX_STEPS - 1) /* the last buffer is for spelled words */
            return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d pre-tokenizers",
                                   SPLITTER_MAX_STEPS - 1);
        known = true;
        splitter_step *step = &out->steps[out->count++];
        step->spells = spells;
        const weft_status status = step_types[i].load(at, step, out);
        if (status)
            return status;
        if (!step->pattern && !step->words && !step->characters && !step->replace_spaces &&
            step->prefix_rule == PREFIX_NEVER) {
            *step = (splitter_step){0};
            out->count--;
        }
    }
    return known ? WEFT_OK
                 : weft__json_fail(at, WEFT_UNSUPPORTED, "pre-tokenizer type \"%s\" is unsupported",
                                   weft_printable(type));
}

/* Recursive; the JSON parser limits the nesting. */
static weft_status load_tree(const weft__json *at, void *out)
{
    const char *type = NULL;
    const weft_status status = weft__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (strcmp(type, "Sequence") == 0)
        return weft__json_each(at, "pretokenizers", load_tree, out);
    return load_step(at, type, out);
}

weft_status weft__splitter_load(const weft__json *root, text_splitter *out)
{
    *out = (text_splitter){0};
    weft__json at;
    weft_status status = weft__json_find(root, "pre_tokenizer", &at);
    if (!status && at.value)
        status = load_tree(&at, out);
    if (status)
        weft__splitter_release(out);
    return status;
}

weft_status weft__splitter_add_pattern(text_splitter *splitter, const char *pattern,
                                       const weft__json *at)
{
    splitter_step *step = &splitter->steps[splitter->count++];
    step->behavior = SPLIT_ISOLATED;
    step->words = weft__words_known(pattern, strlen(pattern));
    if (step->words)
        return WEFT_OK;
    return weft__regex_new(pattern, strlen(pattern), false, at, &step->pattern);
}

void weft__splitter_release(text_splitter *splitter)
{
    for (int i = 0; i < splitter->count; i++)
        weft__regex_free(splitter->steps[i].pattern);
    *splitter = (text_splitter){0};
}

/* ---- splitting ------------------------------------------------------------------------------- */

typedef struct splitting {
    const text_splitter *splitter;
    text_buffer *scratch;
    word_function *word;
    void *context;
} splitting;

/* The state of one step: the text, and the pending piece that a later range may join. */
typedef struct cutter {
    const splitting *all;
    int step;
    const char *text;
    bool first;
    bool held, previous_match;
    size_t start, end;
} cutter;

static weft_status run_step(const splitting *s, int index, const char *text, size_t length,
                            bool first);

static weft_status emit(cutter *c)
{
    if (!c->held || c->start == c->end)
        return WEFT_OK;
    c->held = false;
    return run_step(c->all, c->step + 1, c->text + c->start, c->end - c->start,
                    c->first && c->start == 0);
}

/* Adds the next range: it joins the pending piece, or the pending piece is emitted and replaced. */
static weft_status take(cutter *c, split_behavior behavior, size_t start, size_t end, bool match)
{
    bool joins = false;
    if (behavior == SPLIT_MERGED_WITH_PREVIOUS)
        joins = match && !c->previous_match;
    else if (behavior == SPLIT_MERGED_WITH_NEXT)
        joins = !match && c->previous_match;
    else if (behavior == SPLIT_CONTIGUOUS)
        joins = match == c->previous_match;
    joins = joins && c->held;
    c->previous_match = match;
    if (joins) {
        c->end = end;
        return WEFT_OK;
    }
    const weft_status status = emit(c);
    c->held = !(match && behavior == SPLIT_REMOVED);
    c->start = start;
    c->end = end;
    return status;
}

static weft_status cut(const splitting *s, int index, const char *text, size_t length, bool first)
{
    const splitter_step *step = &s->splitter->steps[index];
    cutter c = {.all = s, .step = index, .text = text, .first = first};
    regex_search search;
    weft_status status = weft__regex_search(step->pattern, text, length, &search);
    size_t done = 0;
    bool found = true;
    while (!status) {
        status = weft__regex_next(&search, &found);
        if (status || !found)
            break;
        if (search.start > done)
            status = take(&c, step->behavior, done, search.start, step->invert);
        if (!status)
            status = take(&c, step->behavior, search.start, search.end, !step->invert);
        done = search.end;
    }
    weft__regex_search_end(&search);
    if (!status && done < length)
        status = take(&c, step->behavior, done, length, step->invert);
    return status ? status : emit(&c);
}

/* Splits at single characters. */
static weft_status cut_characters(const splitting *s, int index, const char *text, size_t length,
                                  bool first)
{
    const splitter_step *step = &s->splitter->steps[index];
    bool (*is_match)(uint32_t) =
        step->characters == SPLIT_AT_SPACES ? weft__is_white_space : weft__is_punctuation;
    cutter c = {.all = s, .step = index, .text = text, .first = first};
    weft_status status = WEFT_OK;
    size_t done = 0;
    for (size_t i = 0; i < length && !status;) {
        const size_t size = (size_t)weft__utf8_step(text + i, length - i);
        if (is_match(weft__utf8_decode(text + i, (int)size))) {
            if (i > done)
                status = take(&c, step->behavior, done, i, false);
            if (!status)
                status = take(&c, step->behavior, i, i + size, true);
            done = i + size;
        }
        i += size;
    }
    if (!status && done < length)
        status = take(&c, step->behavior, done, length, false);
    return status ? status : emit(&c);
}

/* Splits by a known pattern. */
static weft_status cut_words(const splitting *s, int index, const char *text, size_t length,
                             bool first)
{
    const word_pattern pattern = s->splitter->steps[index].words;
    const unsigned char *classes = weft__classes();
    const bool last = index + 1 == s->splitter->count && !s->splitter->spelled;
    weft_status status = WEFT_OK;
    for (size_t start = 0; start < length && !status;) {
        const size_t end = weft__words_next(pattern, classes, text, length, start);
        if (last)
            status = s->word(s->context, text + start, end - start);
        else
            status = run_step(s, index + 1, text + start, end - start, first && start == 0);
        start = end;
    }
    return status;
}

/* Adds the step's prefix and replaces spaces, in the step's buffer. */
static weft_status rewrite(const splitter_step *step, const char *text, size_t length, bool prefix,
                           text_buffer *out)
{
    out->length = 0;
    const size_t mark = strlen(step->prefix);
    weft_status status = prefix ? weft__bytes_append(out, step->prefix, mark) : WEFT_OK;
    while (length > 0 && !status) {
        const char *space = step->replace_spaces ? memchr(text, ' ', length) : NULL;
        const size_t plain = space ? (size_t)(space - text) : length;
        status = weft__bytes_append(out, text, plain);
        if (!status && space)
            status = weft__bytes_append(out, step->prefix, mark);
        text += plain + (space ? 1 : 0);
        length -= plain + (space ? 1 : 0);
    }
    return status;
}

/* Spells bytes as characters of the byte alphabet. */
static weft_status spell(const char *text, size_t length, text_buffer *out)
{
    out->length = 0;
    const weft_status status = weft__bytes_reserve(out, 2 * length);
    for (size_t i = 0; i < length && !status; i++)
        out->length += (size_t)weft__utf8_encode(weft__byte_to_char((unsigned char)text[i]),
                                                 out->data + out->length);
    return status;
}

/* Emits the bytes that a text in the byte alphabet spells. */
static weft_status emit_spelled(const splitting *s, const char *text, size_t length)
{
    text_buffer *out = &s->scratch[SPLITTER_MAX_STEPS - 1];
    out->length = 0;
    const weft_status status = weft__bytes_reserve(out, length);
    if (status)
        return status;
    for (size_t i = 0; i < length;) {
        const int size = weft__utf8_step(text + i, length - i);
        out->data[out->length++] = (char)weft__char_to_byte(weft__utf8_decode(text + i, size));
        i += (size_t)size;
    }
    return s->word(s->context, out->data, out->length);
}

static weft_status run_step(const splitting *s, int index, const char *text, size_t length,
                            bool first)
{
    if (index == s->splitter->count)
        return s->splitter->spelled ? emit_spelled(s, text, length)
                                    : s->word(s->context, text, length);
    const splitter_step *step = &s->splitter->steps[index];
    if (step->spells) {
        const weft_status status = spell(text, length, &s->scratch[index]);
        if (status)
            return status;
        text = s->scratch[index].data;
        length = s->scratch[index].length;
    }
    const size_t mark = strlen(step->prefix);
    const bool begins = (length >= mark && memcmp(text, step->prefix, mark) == 0) ||
                        (step->replace_spaces && length > 0 && text[0] == ' ');
    const bool prefix =
        (step->prefix_rule == PREFIX_ALWAYS || (step->prefix_rule == PREFIX_FIRST && first)) &&
        !begins;
    if (prefix || (step->replace_spaces && memchr(text, ' ', length))) {
        text_buffer *out = &s->scratch[index];
        const weft_status status = rewrite(step, text, length, prefix, out);
        if (status)
            return status;
        text = out->data;
        length = out->length;
    }
    if (step->words)
        return cut_words(s, index, text, length, first);
    if (step->characters)
        return cut_characters(s, index, text, length, first);
    if (!step->pattern)
        return run_step(s, index + 1, text, length, first);
    return cut(s, index, text, length, first);
}

weft_status weft__split(const text_splitter *splitter, const char *text, size_t length, bool first,
                        text_buffer *scratch, word_function *word, void *context)
{
    const splitting all = {
        .splitter = splitter, .scratch = scratch, .word = word, .context = context};
    return length == 0 ? WEFT_OK : run_step(&all, 0, text, length, first);
}
