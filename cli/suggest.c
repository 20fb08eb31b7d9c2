/* cli/suggest.c -- suggestions for misspelt words. */
#include "cli/suggest.h"

#include <string.h>

enum { LONGEST = 40 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The restricted Damerau-Levenshtein distance (Damerau 1964): the number of letters to insert,
 * remove, replace or exchange with the next. */
static int distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void cli_suggest_from(cli_suggestion *s, const char *name)
{
    const size_t n = strlen(s->word);
    /* A prefix of a name counts as a distance of 1. */
    const int far = n >= 3 && strncmp(s->word, name, n) == 0 ? 1 : distance(s->word, name);
    if (far > (int)(n + 2) / 3 || (s->name != NULL && far >= s->far))
        return;
    s->name = name;
    s->far = far;
}
