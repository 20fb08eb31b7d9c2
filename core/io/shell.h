/* core/io/shell.h -- words of command lines, quoted for a shell. The function is inline, since the
 * command uses it too. */
#ifndef WEFT_CORE_IO_SHELL_H
#define WEFT_CORE_IO_SHELL_H

#include <string.h>

/* Bytes that `out` of weft__shell_quote needs for a word of n bytes. */
#define WEFT__SHELL_ROOM(n) (4 * (n) + 3)

/* Writes the word, in single quotes if a shell would change it, and returns `out`. */
static inline char *weft__shell_quote(const char *word, char *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=@%+,";
    char *to = out;
    if (*word && word[strspn(word, plain)] == '\0')
        return strcpy(out, word);
    *to++ = '\'';
    for (const char *at = word; *at; at++) {
        if (*at == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *at;
    }
    strcpy(to, "'");
    return out;
}

#endif
