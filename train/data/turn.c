/* train/data/turn.c -- finds the part of a rendered conversation that the assistant generates.
 *
 * A turn is what a model would have to generate after the generation prompt. Three kinds of
 * templates need more than comparing two renderings:
 * - some generation prompts begin the answer (DeepSeek-R1-Distill: "<think>\n"), and the rendered
 *   message does not contain that: the turn begins where the two part, at the end of a token;
 * - such templates also drop the reasoning of a message: it is put back after the generation
 *   prompt, which is how the model generates it;
 * - a message that comes first has no text before it, and some templates require a question
 *   (Qwen 3.5). It is rendered as the answer to one, which is then removed from the text. */
#include "train/data/turn.h"

#include <ctype.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "weft/memory.h"

/* A piece of a text. */
typedef struct piece {
    const char *at;
    size_t n;
} piece;

static bool is_space(char c)
{
    return isspace((unsigned char)c) != 0;
}

static piece trimmed(piece p)
{
    while (p.n > 0 && is_space(p.at[0]))
        p = (piece){p.at + 1, p.n - 1};
    while (p.n > 0 && is_space(p.at[p.n - 1]))
        p.n--;
    return p;
}

/* Where `what` begins in `in`, the first or the last time; in.n if it does not occur. */
static size_t find(piece in, piece what, bool last)
{
    size_t found = in.n;
    for (size_t i = 0; i + what.n <= in.n; i++) {
        if (memcmp(in.at + i, what.at, what.n) == 0) {
            found = i;
            if (!last)
                break;
        }
    }
    return found;
}

static bool begins_with(piece text, piece start)
{
    return text.n >= start.n && memcmp(text.at, start.at, start.n) == 0;
}

/* ---- rendering ------------------------------------------------------------------------------ */

weft_status weft__conversation_render(const weft__conversation *c, json_object *messages,
                                      bool generation_prompt, char **text, size_t *n,
                                      jinja_spans *spans)
{
    const char *json = json_object_to_json_string_ext(messages, JSON_C_TO_STRING_PLAIN |
                                                                    JSON_C_TO_STRING_NOSLASHESCAPE);
    if (json == NULL)
        return weft__out_of_memory("dataset", NULL);
    const weft_chat_options options = {
        .generation_prompt = generation_prompt, .tools = c->tools, .variables = c->variables};
    const weft_status status = weft__chat_render_spans(c->o->chat, json, &options, text, n, spans);
    return status == WEFT_OK ? status
                             : weft__json_fail(c->list, status, "%s", weft_error_message());
}

weft_status weft__conversation_append(const weft__conversation *c, json_object *message)
{
    if (json_object_array_add(c->messages, message) == 0)
        return WEFT_OK;
    json_object_put(message);
    return weft__out_of_memory("dataset", NULL);
}

/* The text before a turn: with the generation prompt, and without it. */
typedef struct before {
    char *with, *without;
    size_t n_with, n_without;
} before;

/* The message {"role": "user", "content": "?"}; NULL when out of memory. */
static json_object *question(void)
{
    json_object *message = json_object_new_object();
    if (message && json_object_object_add(message, "role", json_object_new_string("user")) == 0 &&
        json_object_object_add(message, "content", json_object_new_string("?")) == 0)
        return message;
    json_object_put(message);
    return NULL;
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* Whether a token of the text ends after its first n bytes. */
static weft_status ends_token(const weft__conversation *c, piece text, size_t n, bool *out)
{
    int32_t *ids = NULL, *first = NULL;
    size_t n_ids, n_first;
    *out = n == text.n;
    if (*out || ((unsigned char)text.at[n] & 0xC0) == 0x80)
        return WEFT_OK;
    weft_status status = weft_tokenizer_encode(c->tokenizer, text.at, text.n, 0, &ids, &n_ids);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(c->tokenizer, text.at, n, 0, &first, &n_first);
    if (status == WEFT_OK)
        *out = n_first <= n_ids && memcmp(ids, first, n_first * sizeof *ids) == 0;
    weft_free(ids);
    weft_free(first);
    return status;
}

/* The length of the longest common beginning of both texts that ends with a token of both. */
static weft_status common_tokens(const weft__conversation *c, piece a, piece b, size_t *out)
{
    size_t n = 0;
    bool ends[2] = {false, false};
    weft_status status = WEFT_OK;
    while (n < a.n && n < b.n && a.at[n] == b.at[n])
        n++;
    for (; n > 0 && status == WEFT_OK; n--) {
        status = ends_token(c, a, n, &ends[0]);
        if (status == WEFT_OK)
            status = ends_token(c, b, n, &ends[1]);
        if (ends[0] && ends[1])
            break;
    }
    *out = n;
    return status;
}

/* Finds the generation prompt: what the text with it has more than the text without it. */
static weft_status find_prompt(const weft__conversation *c, const before *b, piece *out)
{
    size_t n = 0;
    const weft_status status =
        common_tokens(c, (piece){b->with, b->n_with}, (piece){b->without, b->n_without}, &n);
    *out = (piece){b->with + n, b->n_with - n};
    return status;
}

/* ---- the end -------------------------------------------------------------------------------- */

static const piece end_of_reasoning = {"</think>", 8};

static bool is_special_at_end(const weft__conversation *c, piece text)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const bool is = weft_tokenizer_encode(c->tokenizer, text.at, text.n, 0, &ids, &n) == WEFT_OK &&
                    n > 0 && weft_tokenizer_is_special(c->tokenizer, ids[n - 1]);
    weft_free(ids);
    return is;
}

/* The end of the turn that begins at `begin`: after its last EOS. If the template writes no EOS:
 * after the special token that the text ends with, without the space after it, else the whole
 * text. */
static size_t end_of_turn(const weft__conversation *c, piece text, size_t begin)
{
    const piece turn = {text.at + begin, text.n - begin};
    const piece eos = {c->eos, c->eos ? strlen(c->eos) : 0};
    const size_t at = eos.n > 0 ? find(turn, eos, true) : turn.n;
    if (at < turn.n)
        return begin + at + eos.n;
    piece shorter = turn;
    while (shorter.n > 0 && is_space(shorter.at[shorter.n - 1]))
        shorter.n--;
    return is_special_at_end(c, shorter) ? begin + shorter.n : text.n;
}

/* The special token that the text begins with, except for the beginning of a text; NULL: none. */
static const char *special_at_begin(const weft__conversation *c, piece text)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const char *token = NULL;
    if (weft_tokenizer_encode(c->tokenizer, text.at, text.n, 0, &ids, &n) == WEFT_OK && n > 0 &&
        weft_tokenizer_is_special(c->tokenizer, ids[0]) &&
        ids[0] != weft_tokenizer_bos(c->tokenizer))
        token = weft_tokenizer_id_to_token(c->tokenizer, ids[0]);
    weft_free(ids);
    return token && begins_with(text, (piece){token, strlen(token)}) ? token : NULL;
}

/* For templates that write no token after an answer (GLM): appends the special token that a
 * question begins with, at which the model ends its answer. */
static weft_status append_end(const weft__conversation *c, weft__turn *t, size_t *n)
{
    const size_t at = json_object_array_length(c->messages);
    char *longer = NULL;
    size_t n_longer = 0;
    const piece turn = {t->text + t->begin, *n - t->begin};
    const size_t reasoning = find(turn, end_of_reasoning, true);
    const size_t skipped = reasoning < turn.n ? reasoning + end_of_reasoning.n : 0;
    const piece answer = {turn.at + skipped, turn.n - skipped};
    if (answer.n == 0 || end_of_turn(c, (piece){t->text, *n}, t->begin) < *n ||
        is_special_at_end(c, turn))
        return WEFT_OK;
    json_object *asked = question();
    weft_status status =
        asked ? weft__conversation_append(c, asked) : weft__out_of_memory("dataset", NULL);
    if (status == WEFT_OK)
        status = weft__conversation_render(c, c->messages, false, &longer, &n_longer, NULL);
    json_object_array_del_idx(c->messages, at, 1);
    const size_t found =
        status == WEFT_OK ? find((piece){longer, n_longer}, answer, true) : n_longer;
    const size_t behind = found < n_longer ? found + answer.n : n_longer;
    const char *token =
        status == WEFT_OK ? special_at_begin(c, (piece){longer + behind, n_longer - behind}) : NULL;
    weft_free(longer);
    if (token == NULL)
        return status == WEFT_INVALID ? WEFT_OK : status;
    weft__text text = {0};
    weft__text_append(&text, t->text, *n);
    weft__text_append(&text, token, strlen(token));
    weft_free(t->text);
    t->text = text.at;
    *n = text.n;
    return text.failed ? weft__out_of_memory("dataset", NULL) : WEFT_OK;
}

/* ---- reasoning ------------------------------------------------------------------------------ */

/* Puts the reasoning in a message's content back if the template dropped it: the turn is then the
 * generation prompt, the content and what the template writes after it. */
static weft_status restore(weft__turn *t, const before *b, piece all, size_t *n)
{
    const piece text = {t->text + t->begin, *n - t->begin};
    const size_t cut = find(all, end_of_reasoning, true);
    if (cut == all.n || find(text, end_of_reasoning, false) < text.n)
        return WEFT_OK;
    const size_t behind = cut + end_of_reasoning.n;
    const piece answer = trimmed((piece){all.at + behind, all.n - behind});
    const size_t at = find(text, answer, true);
    if (at == text.n || answer.n == 0)
        return WEFT_OK;
    const piece tail = {text.at + at + answer.n, text.n - at - answer.n};
    size_t again = b->n_with < all.n ? b->n_with : all.n; /* what the prompt already has */
    while (memcmp(b->with + b->n_with - again, all.at, again) != 0)
        again--;
    weft__text restored = {0};
    weft__text_append(&restored, b->with, b->n_with);
    weft__text_append(&restored, all.at + again, all.n - again);
    weft__text_append(&restored, tail.at, tail.n);
    weft_free(t->text);
    t->text = restored.at;
    t->begin = b->n_with;
    *n = restored.n;
    return restored.failed ? weft__out_of_memory("dataset", NULL) : WEFT_OK;
}

static weft_status restore_reasoning(weft__turn *t, const before *b, json_object *message,
                                     size_t *n)
{
    weft__text content = {0};
    weft_status status = WEFT_OK;
    if (weft__chat_content_text(json_object_object_get(message, "content"), &content))
        status = content.failed ? weft__out_of_memory("dataset", NULL)
                                : restore(t, b, trimmed((piece){content.at, content.n}), n);
    weft_free(content.at);
    return status;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* Renders the conversation without its last message. */
static weft_status render_shorter(const weft__conversation *c, char **text, size_t *n)
{
    const size_t last = json_object_array_length(c->messages) - 1;
    json_object *message = json_object_get(json_object_array_get_idx(c->messages, last));
    json_object_array_del_idx(c->messages, last, 1);
    const weft_status status = weft__conversation_render(c, c->messages, false, text, n, NULL);
    const weft_status appended = weft__conversation_append(c, message);
    return status == WEFT_OK ? appended : status;
}

/* Finds where the turn parts from the generation prompt. *out is 0 if it has nothing of it. */
static weft_status begin_after_prompt(const weft__conversation *c, before *b, piece text,
                                      size_t *out)
{
    const piece with = {b->with, b->n_with};
    size_t n = 0;
    *out = with.n;
    if (begins_with(text, with))
        return WEFT_OK;
    *out = 0;
    piece prompt = {NULL, 0};
    weft_status status = b->without ? WEFT_OK : render_shorter(c, &b->without, &b->n_without);
    if (status == WEFT_OK)
        status = find_prompt(c, b, &prompt);
    const size_t shared = with.n - prompt.n;
    if (status != WEFT_OK || !begins_with(text, (piece){with.at, shared}))
        return status;
    status = common_tokens(c, prompt, (piece){text.at + shared, text.n - shared}, &n);
    *out = n > 0 ? shared + n : 0;
    return status;
}

/* Finds the turn that the text of the conversation ends with. */
static weft_status find_turn(weft__conversation *c, before *b, json_object *message, weft__turn *t)
{
    size_t n = 0;
    weft_status status = weft__conversation_render(c, c->messages, false, &t->text, &n, NULL);
    if (status == WEFT_OK)
        status = begin_after_prompt(c, b, (piece){t->text, n}, &t->begin);
    if (status == WEFT_OK && t->begin == 0 && b->n_with > 0)
        return weft__json_fail(c->list, WEFT_UNSUPPORTED,
                               "message %zu: the chat template renders the turn differently from "
                               "the generation prompt",
                               t->index + 1);
    if (status == WEFT_OK)
        status = append_end(c, t, &n);
    if (status == WEFT_OK)
        status = restore_reasoning(t, b, message, &n);
    if (status == WEFT_OK)
        t->end = end_of_turn(c, (piece){t->text, n}, t->begin);
    return status;
}

/* Replaces what precedes the generation prompt by what the conversation begins with, which the text
 * with the question shares. The prompt may begin with the end of that: "<|im_start|>". */
static weft_status remove_question(const weft__conversation *c, before *b, weft__turn *t)
{
    char *all = NULL;
    size_t n_all = 0, n = 0;
    piece prompt = {NULL, 0};
    weft_status status = weft__conversation_render(c, c->given, false, &all, &n_all, NULL);
    if (status == WEFT_OK)
        status = find_prompt(c, b, &prompt);
    if (status == WEFT_OK)
        status = common_tokens(c, (piece){b->without, b->n_without}, (piece){all, n_all}, &n);
    const size_t removed = b->n_with - prompt.n;
    if (status == WEFT_OK && n < removed) {
        size_t again = n < prompt.n ? n : prompt.n;
        while (memcmp(all + n - again, prompt.at, again) != 0)
            again--;
        n -= again;
        memcpy(t->text, all, n);
        memmove(t->text + n, t->text + removed, t->end - removed);
        t->begin -= removed - n;
        t->end -= removed - n;
    }
    weft_free(all);
    return status;
}

/* Adds the turn of a message that nothing precedes, or no question. */
static weft_status add_unasked(weft__conversation *c, before *b, json_object *message,
                               weft__turn *t)
{
    const size_t at = json_object_array_length(c->messages);
    json_object *asked = question();
    weft_status status =
        asked ? weft__conversation_append(c, asked) : weft__out_of_memory("dataset", NULL);
    if (status == WEFT_OK)
        status = weft__conversation_render(c, c->messages, true, &b->with, &b->n_with, NULL);
    if (status == WEFT_OK)
        status = weft__conversation_render(c, c->messages, false, &b->without, &b->n_without, NULL);
    if (status == WEFT_OK)
        status = weft__conversation_append(c, json_object_get(message));
    if (status == WEFT_OK)
        status = find_turn(c, b, message, t);
    if (status == WEFT_OK)
        status = remove_question(c, b, t);
    json_object_array_del_idx(c->messages, at, 1);
    return status;
}

static weft_status add_answer(weft__conversation *c, before *b, json_object *message, weft__turn *t)
{
    weft_status status = weft__conversation_append(c, json_object_get(message));
    return status == WEFT_OK ? find_turn(c, b, message, t) : status;
}

weft_status weft__conversation_add_turn(weft__conversation *c, json_object *message, size_t index,
                                        double weight)
{
    bool asked = json_object_array_length(c->messages) > 0;
    weft__turn *t = &c->turns[c->n_turns++];
    *t = (weft__turn){.index = index, .weight = weight};
    before b = {0};
    weft_status status = WEFT_OK;
    if (asked)
        status = weft__conversation_render(c, c->messages, true, &b.with, &b.n_with, NULL);
    if (status == WEFT_INVALID) { /* the template wants a question */
        asked = false;
        status = WEFT_OK;
    }
    if (status == WEFT_OK)
        status = asked ? add_answer(c, &b, message, t) : add_unasked(c, &b, message, t);
    json_object_put(message);
    weft_free(b.with);
    weft_free(b.without);
    return status;
}
