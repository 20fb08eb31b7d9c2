/* cli/words.h -- operations on the words of command lines: finding options, checking which exclude
 * each other, adding defaults, and merging two lines. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "cli/options.h"

/* A list of copied words; free it with cli_words_free. */
typedef struct cli_word_list {
    char **at;
    int n, capacity;
    bool failed; /* out of memory */
} cli_word_list;

void cli_words_free(cli_word_list *words);

/* Adds a copy of the word, or sets `failed`. */
void cli_words_add(cli_word_list *words, const char *word);

/* Adds "--name" and its value (NULL: none). */
void cli_words_add_option(cli_word_list *words, const char *name, const char *value);

/* The value of an option in a list of words (the last one if it is given several times; "" for a
 * flag); NULL: not given. */
const char *cli_word_of(const cli_command *command, char *const *at, int n, const char *name);

/* Whether the command line contains the option. */
bool cli_is_given(const cli_command *command, const cli_given *given, const char *name);

/* Whether two values of an option are equal as texts or as numbers. */
bool cli_same_value(const char *a, const char *b);

/* Whether the command line contains the option with a value other than its default. */
bool cli_is_set(const cli_command *command, const cli_given *given, const cli_option *option);

/* Options that exclude each other. */
typedef struct cli_rule {
    /* What must hold, separated by spaces: "NAME", that cli_is_set; "NAME=VALUE", that this is its
     * value; either with ! before it, the opposite. */
    const char *terms;
    bool (*when)(const void *values); /* a further condition; NULL: none */
    const char *says;                 /* the usage error */
} cli_rule;

/* The usage error of the first rule that applies; NULL: none applies. */
const char *cli_complaint(const cli_command *command, const cli_given *given, const cli_rule *rules,
                          size_t n, const void *values);

/* The first option of the command with one of the marks that the command line contains; NULL: none.
 */
const cli_option *cli_given_with(const cli_command *command, const cli_given *given,
                                 unsigned marks);

/* The command line with the defaults of absent options added, and without those marked
 * CLI_TRANSIENT. Parsing it gives the same values. */
cli_word_list cli_all_words(const cli_command *command, const cli_given *given);

/* Merges a command line over a list of words: its options replace theirs, and its arguments, if it
 * has any, replace theirs. */
cli_word_list cli_merge_words(const cli_command *command, char *const *at, int n,
                              const cli_given *given);

#endif
