/* cli/suggest.h -- suggestions for misspelt words. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

/* Set the word, call cli_suggest_from with each name, and look at `name`: the nearest one, NULL
 * when none is near. */
typedef struct cli_suggestion {
    const char *word, *name;
    int far;
} cli_suggestion;

void cli_suggest_from(cli_suggestion *suggestion, const char *name);

#endif
