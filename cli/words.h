/* cli/words.h -- command lines as words: which options were given, all of them with defaults, and
 * one on top of another. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "cli/options.h"

/* Words in memory of their own; cli_words_free. */
typedef struct cli_word_list {
    char **at;
    int n, capacity;
    bool failed; /* without memory */
} cli_word_list;

void cli_words_free(cli_word_list *words);

/* Adds a copy of the word, or sets `failed`. */
void cli_words_add(cli_word_list *words, const char *word);

/* The value of an option among words, in its last place; "" of a flag; NULL: it is not there. */
const char *cli_word_of(const cli_command *command, char *const *at, int n, const char *name);

/* Whether the command line has the option. */
bool cli_is_given(const cli_command *command, const cli_given *given, const char *name);

/* The command line with the defaults of what was not given, and without the options in `skipped`
 * (names, ended by NULL): parsed again it means the same. */
cli_word_list cli_all_words(const cli_command *command, const cli_given *given,
                            const char *const *skipped);

/* Words without the options and arguments that the command line has, and then those. */
cli_word_list cli_merge_words(const cli_command *command, char *const *at, int n,
                              const cli_given *given);

#endif
