/* cli/text.h -- endings of texts, and their characters. */
#ifndef WEFT_CLI_TEXT_H
#define WEFT_CLI_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool cli_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The number of characters of a text in UTF-8. */
static inline int cli_characters(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

#endif
