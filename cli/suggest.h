/* cli/suggest.h -- suggestions for misspelt words. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

/* To use it, set `word` and call cli_suggest_from with each name. `name` is then the most similar
 * one, or NULL if none is similar. */
typedef struct cli_suggestion {
    const char *word, *name;
    int far;
} cli_suggestion;

void cli_suggest_from(cli_suggestion *suggestion, const char *name);

#endif
