/* cli/words.c -- operations on the words of command lines: finding options, checking which exclude
 * each other, adding defaults, and merging two lines. */
#include "cli/words.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---------------------------------------------------------------------------------- */

void cli_words_add(cli_word_list *words, const char *word)
{
    if (words->n == words->capacity) {
        const int capacity = 2 * words->capacity + 32;
        char **more = realloc(words->at, (size_t)capacity * sizeof *more);
        if (more == NULL) {
            words->failed = true;
            return;
        }
        words->at = more;
        words->capacity = capacity;
    }
    words->at[words->n] = strdup(word);
    words->failed = words->failed || words->at[words->n] == NULL;
    words->n += words->at[words->n] != NULL;
}

void cli_words_add_option(cli_word_list *words, const char *name, const char *text)
{
    char word[80];
    snprintf(word, sizeof word, "--%s", name);
    cli_words_add(words, word);
    if (text)
        cli_words_add(words, text);
}

static void add_option(cli_word_list *words, const cli_option *o, const char *text)
{
    cli_words_add_option(words, o->name, o->kind != CLI_FLAG ? text : NULL);
}

void cli_words_free(cli_word_list *words)
{
    for (int i = 0; i < words->n; i++)
        free(words->at[i]);
    free(words->at);
    *words = (cli_word_list){.n = 0};
}

/* ---- reading command lines ------------------------------------------------------------------- */

/* An option or argument of a command line that was parsed successfully. */
typedef struct item {
    const cli_option *option; /* NULL: an argument */
    const char *text;
} item;

/* Reads the item at *i and advances *i; false at the end. *plain is set after "--". */
static bool next_item(const cli_command *c, char *const *at, int n, int *i, bool *plain, item *out)
{
    if (*i < n && !*plain && strcmp(at[*i], "--") == 0) {
        *plain = true;
        ++*i;
    }
    if (*i >= n)
        return false;
    const char *word = at[(*i)++];
    *out = (item){.text = word};
    if (*plain || word[0] != '-' || word[1] == '\0')
        return true;
    out->option = cli_find_option(c, word, &out->text);
    if (out->option && out->option->kind != CLI_FLAG && out->text == NULL && *i < n)
        out->text = at[(*i)++];
    return true;
}

const char *cli_word_of(const cli_command *c, char *const *at, int n, const char *name)
{
    const char *found = NULL;
    bool plain = false;
    item it;
    for (int i = 0; next_item(c, at, n, &i, &plain, &it);) {
        if (it.option && strcmp(it.option->name, name) == 0)
            found = it.text ? it.text : "";
    }
    return found;
}

bool cli_is_given(const cli_command *c, const cli_given *given, const char *name)
{
    return cli_word_of(c, given->at, given->n, name) != NULL;
}

const cli_option *cli_given_with(const cli_command *c, const cli_given *given, unsigned marks)
{
    for (int i = 0; i < c->n_options; i++) {
        if (c->options[i].marks & marks && cli_is_given(c, given, c->options[i].name))
            return &c->options[i];
    }
    return NULL;
}

/* ---- rules ----------------------------------------------------------------------------------- */

bool cli_same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    const bool numbers = end_a != a && end_b != b && *end_a == '\0' && *end_b == '\0';
    return strcmp(a, b) == 0 || (numbers && x == y);
}

bool cli_is_set(const cli_command *c, const cli_given *given, const cli_option *o)
{
    const char *word = cli_word_of(c, given->at, given->n, o->name);
    return word && (o->fallback == NULL || !cli_same_value(word, o->fallback));
}

/* Whether a term of a rule holds: n characters. */
static bool holds(const cli_command *c, const cli_given *given, const char *term, int n)
{
    char name[64];
    const int negated = *term == '!';
    snprintf(name, sizeof name, "%.*s", n - negated, term + negated);
    const char *value = NULL, *word;
    char *equals = strchr(name, '=');
    if (equals) {
        *equals = '\0';
        value = equals + 1;
    }
    const cli_option *o = cli_option_named(c, name);
    assert(o != NULL);
    word = cli_word_of(c, given->at, given->n, name);
    if (word == NULL)
        word = o->fallback ? o->fallback : "";
    return negated != (value ? cli_same_value(word, value) : cli_is_set(c, given, o));
}

const char *cli_complaint(const cli_command *c, const cli_given *given, const cli_rule *rules,
                          size_t n, const void *values)
{
    for (const cli_rule *rule = rules; rule < rules + n; rule++) {
        const char *at = rule->terms;
        int length = (int)strcspn(at, " ");
        while (*at != '\0' && holds(c, given, at, length)) {
            at += length + (int)strspn(at + length, " ");
            length = (int)strcspn(at, " ");
        }
        if (*at == '\0' && (rule->when == NULL || rule->when(values)))
            return rule->says;
    }
    return NULL;
}

/* ---- building command lines ------------------------------------------------------------------ */

/* Adds the positional arguments of a command line. */
static void add_arguments(cli_word_list *out, const cli_command *c, char *const *at, int n)
{
    bool plain = false;
    item it;
    for (int i = 0; next_item(c, at, n, &i, &plain, &it);) {
        if (it.option == NULL)
            cli_words_add(out, it.text);
    }
}

static bool has_arguments(const cli_command *c, char *const *at, int n)
{
    bool plain = false;
    item it;
    for (int i = 0; next_item(c, at, n, &i, &plain, &it);) {
        if (it.option == NULL)
            return true;
    }
    return false;
}

cli_word_list cli_all_words(const cli_command *c, const cli_given *given)
{
    cli_word_list out = {.n = 0};
    bool plain = false;
    item it;
    for (int i = 0; next_item(c, given->at, given->n, &i, &plain, &it);) {
        if (it.option && !(it.option->marks & CLI_TRANSIENT))
            add_option(&out, it.option, it.text);
    }
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (cli_default_of(o) && !(o->marks & CLI_TRANSIENT) && !cli_is_given(c, given, o->name))
            add_option(&out, o, cli_default_of(o));
    }
    cli_words_add(&out, "--");
    add_arguments(&out, c, given->at, given->n);
    return out;
}

cli_word_list cli_merge_words(const cli_command *c, char *const *at, int n, const cli_given *given)
{
    cli_word_list out = {.n = 0};
    bool plain = false;
    item it;
    for (int i = 0; next_item(c, at, n, &i, &plain, &it);) {
        if (it.option && !cli_is_given(c, given, it.option->name))
            add_option(&out, it.option, it.text);
    }
    plain = false;
    for (int i = 0; next_item(c, given->at, given->n, &i, &plain, &it);) {
        if (it.option)
            add_option(&out, it.option, it.text);
    }
    cli_words_add(&out, "--");
    const bool anew = has_arguments(c, given->at, given->n);
    add_arguments(&out, c, anew ? given->at : at, anew ? given->n : n);
    return out;
}
