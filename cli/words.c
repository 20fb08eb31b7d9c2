/* cli/words.c -- operations on the words of command lines: finding options, adding defaults, and
 * merging two lines. */
#include "cli/words.h"

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
