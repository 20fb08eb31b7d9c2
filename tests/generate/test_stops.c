/* tests/generate/test_stops.c -- generate/stops.c: stop texts however tokens split them, and no
 * text is held back longer than necessary; also in weft_generate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/stops.h"
#include "tests/generate/once.h"

enum { MOST = 64 };

typedef struct stop_case {
    const char *text;
    const char *stops[4];
} stop_case;

static int count(const stop_case *c)
{
    int n = 0;
    while (n < 4 && c->stops[n] != NULL)
        n++;
    return n;
}

/* ---- expected results by a simple search ---------------------------------------------------- */

/* Where the text is cut (`from`) and the stop text ends; the length of the text without one. */
static void find(const stop_case *c, size_t *from, size_t *to)
{
    const size_t length = strlen(c->text);
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (int i = 0; i < count(c); i++) {
            const size_t n = strlen(c->stops[i]);
            if (n <= end && memcmp(c->text + end - n, c->stops[i], n) == 0 && n > longest)
                longest = n;
        }
        if (longest > 0) {
            *from = end - longest;
            *to = end;
            return;
        }
    }
    *from = *to = length;
}

/* Bytes at the end of the first n that may still become a stop text. */
static size_t undecided(const stop_case *c, size_t n)
{
    size_t most = 0;
    for (int i = 0; i < count(c); i++) {
        for (size_t k = 1; k < strlen(c->stops[i]) && k <= n; k++) {
            if (memcmp(c->text + n - k, c->stops[i], k) == 0 && k > most)
                most = k;
        }
    }
    return most;
}

/* ---- one way to split a text ---------------------------------------------------------------- */

typedef struct given {
    char text[256];
    size_t length;
    int32_t ids[MOST];
    int n;
} given;

static void take(weft__stops *stops, given *g)
{
    weft_generated token;
    while (weft__stops_next(stops, &token)) {
        CHECK(strlen(token.text) == token.length);
        memcpy(g->text + g->length, token.text, token.length + 1);
        g->length += token.length;
        if (token.id >= 0) {
            CHECK_CLOSE(token.logprob, -token.id, 0);
            g->ids[g->n++] = token.id;
        }
    }
}

/* Tokens 0, 1, ... with the pieces of the text between the bits of `cuts`; each may be followed by
 * one without text. */
static void check_split(const stop_case *c, unsigned cuts, bool include, bool empty)
{
    const size_t length = strlen(c->text);
    size_t from, to, start = 0;
    weft__stops *stops;
    given g = {0};
    int32_t id = 0, last = -1; /* of the expected ones */
    find(c, &from, &to);
    const size_t end = include ? to : from;
    if (!CHECK_OK(weft__stops_new(c->stops, count(c), include, &stops)))
        return;
    for (size_t i = 1; i <= length && !weft__stops_found(stops); i++) {
        if (i < length && (cuts >> (i - 1) & 1) == 0)
            continue;
        char piece[256];
        memcpy(piece, c->text + start, i - start);
        const weft_generated token = {.id = id, .text = piece, .length = i - start, .logprob = -id};
        CHECK_OK(weft__stops_push(stops, &token));
        last = start < end ? id : last;
        id++;
        start = i;
        take(stops, &g);
        if (i < to || from == to)
            CHECK_EQ_INT(g.length, i - undecided(c, i)); /* all decided text has been delivered */
        if (empty && !weft__stops_found(stops)) {
            const weft_generated nothing = {.id = id, .text = "", .logprob = -id};
            CHECK_OK(weft__stops_push(stops, &nothing));
            id++;
        }
    }
    if (!weft__stops_found(stops))
        last = id - 1;
    CHECK_EQ_INT(weft__stops_found(stops), from < to);
    weft__stops_finish(stops);
    take(stops, &g);
    CHECK_EQ_INT(g.length, end);
    CHECK_BYTES(g.text, c->text, end);
    CHECK_EQ_INT(g.n, last + 1);
    for (int i = 0; i < g.n; i++)
        CHECK_EQ_INT(g.ids[i], i);
    weft__stops_free(stops);
}

static void every_split_of_the_text_gives_the_same(void)
{
    static const stop_case cases[] = {
        {"ab##cd###ef", {"###"}},
        {"no stop here", {"xyz", "heree"}},
        {"aaaaab", {"aab"}},
        {"ab", {"ab"}},
        {"xabcabcabd", {"abcabd"}},
        {"one\n\nUser: x", {"\n\nUser:", "\nModel:"}},
        {"abcdefg", {"cde", "bcdef", "e"}},
        {"abcdefg", {"bcde", "cde", "zz"}},
        {"ends in ##", {"###"}},
        {"caf\xC3\xA9!\xE2\x82\xAC.", {"\xC3\xA9!\xE2\x82\xAC"}},
        {"abab", {"b", "a"}},
        {"free text", {NULL}},
    };
    long splits = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned all = 1U << (strlen(cases[i].text) - 1);
        for (unsigned cuts = 0; cuts < all; cuts++) {
            for (int way = 0; way < 4; way++)
                check_split(&cases[i], cuts, way % 2 == 1, way >= 2);
        }
        splits += all;
    }
    printf("  %ld ways to part texts\n", splits);
}

static void empty_texts_are_refused(void)
{
    static const char *const texts[] = {"a", ""};
    weft__stops *stops;
    CHECK_STATUS(weft__stops_new(texts, 2, false, &stops), WEFT_INVALID);
    CHECK(stops == NULL);
    weft__stops_free(NULL);
}

/* ---- in weft_generate ----------------------------------------------------------------------- */

/* Every text of 1 to 9 bytes within the model's text, as the stop text. */
static void generation_ends_before_the_stop_text(void)
{
    if (!ready())
        return;
    generated whole = {0};
    weft_generate_options o = {.max_tokens = 14, .ignore_eos = true};
    weft_generate_stats stats = generate(&o, &whole);
    const size_t length = strlen(whole.text);
    CHECK(length > 30);
    for (size_t at = 0; at + 9 <= length; at += 2) {
        char stop[10] = {0};
        const char *const texts[] = {stop};
        memcpy(stop, whole.text + at, 1 + at % 9);
        generated t = {0};
        o.stop_texts = texts;
        o.n_stop_texts = 1;
        o.include_stop_text = at % 4 == 0;
        o.tokens_per_eval = 1 + (int64_t)at % 3;
        stats = generate(&o, &t);
        const size_t end = (size_t)(strstr(whole.text, stop) - whole.text) +
                           (o.include_stop_text ? strlen(stop) : 0);
        CHECK_EQ_INT(strlen(t.text), end);
        CHECK_BYTES(t.text, whole.text, end);
        CHECK_BYTES(t.ids, whole.ids, (size_t)t.n * sizeof *t.ids);
        CHECK_EQ_INT(stats.reason, WEFT_FINISH_STOP);
        CHECK_EQ_INT(stats.detail, WEFT_FINISH_TEXT);
        CHECK_EQ_INT(stats.tokens, t.n);
    }
    CHECK_STATUS(weft_generate(model, NULL, once, ONCE, &o, generated_collect, &whole, &stats),
                 WEFT_INVALID);
}

/* Characters of several bytes, which this vocabulary writes as several tokens. */
static void characters_of_several_tokens_stop_too(void)
{
    static const char schema[] = "{\"const\":\"a\xE2\x82\xAC\xE2\x82\xAD\xF0\x9F\x98\x80z\"}";
    static const char *const texts[] = {"\xE2\x82\xAD\xF0\x9F\x98\x80"};
    weft_constraint *constraint = NULL;
    if (!ready() || !CHECK_OK(weft_constraint_new(tokenizer, schema, strlen(schema), "schema", NULL,
                                                  &constraint)))
        return;
    generated t = {0};
    weft_generate_options o = {.max_tokens = 40, .constraint = constraint};
    weft_generate_stats stats = generate(&o, &t);
    CHECK_STR(t.text, "\"a\xE2\x82\xAC\xE2\x82\xAD\xF0\x9F\x98\x80z\"");
    const int all = t.n;
    CHECK(all > 10);
    memset(&t, 0, sizeof t);
    o.stop_texts = texts;
    o.n_stop_texts = 1;
    CHECK_OK(weft_constraint_reset(constraint));
    stats = generate(&o, &t);
    CHECK_STR(t.text, "\"a\xE2\x82\xAC");
    CHECK_EQ_INT(stats.detail, WEFT_FINISH_TEXT);
    CHECK(t.n > 3 && t.n < all - 5);
    weft_constraint_free(constraint);
}

int main(int argc, char **argv)
{
    static const check_case cases[] = {
        CHECK_CASE(every_split_of_the_text_gives_the_same),
        CHECK_CASE(empty_texts_are_refused),
        CHECK_CASE(generation_ends_before_the_stop_text),
        CHECK_CASE(characters_of_several_tokens_stop_too),
    };
    return check_main(argc, argv, "stops", cases, sizeof cases / sizeof *cases);
}
