/* train/adapter/card.c -- reads the license in the header of a base model's card.
 *
 * Format: huggingface.co/docs/hub/model-cards. The members read here are scalars at the top level,
 * so lines suffice: KEY: VALUE, the value plain or quoted. */
#include "train/adapter/card.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "weft/io.h"
#include "weft/memory.h"

/* Longer cards are not read. */
enum { LONGEST = 1 << 24 };

static char *read_card(const char *model)
{
    struct stat info;
    char *text = NULL;
    const char *slash = strrchr(model, '/');
    const bool folder = stat(model, &info) == 0 && S_ISDIR(info.st_mode);
    const int n = folder ? (int)strlen(model) : slash ? (int)(slash - model) : 1;
    char *path = weft_format("%.*s/README.md", n, folder || slash ? model : ".");
    if (path == NULL || stat(path, &info) != 0 ||
        weft_file_read(path, LONGEST, &text, NULL) != WEFT_OK)
        text = NULL;
    weft_free(path);
    return text;
}

/* A copy of a scalar of n bytes without quotes, comment and spaces around it; NULL for "", for
 * null, and for a value that continues on other lines. */
static char *scalar(const char *at, size_t n)
{
    while (n > 0 && isspace((unsigned char)*at))
        at++, n--;
    const char quote = n > 0 && (*at == '"' || *at == '\'') ? *at : '\0';
    size_t end = 0;
    if (quote) {
        const char *close = memchr(at + 1, quote, n - 1);
        return close && close > at + 1 ? weft_format("%.*s", (int)(close - at - 1), at + 1) : NULL;
    }
    while (end < n && !(at[end] == '#' && end > 0 && isspace((unsigned char)at[end - 1])))
        end++;
    while (end > 0 && isspace((unsigned char)at[end - 1]))
        end--;
    return end == 0 || strchr("|>[{&*!#-", *at) || (end == 4 && strncmp(at, "null", 4) == 0)
               ? NULL
               : weft_format("%.*s", (int)end, at);
}

static void read_line(const char *line, size_t n, weft__base_card *out)
{
    const struct {
        const char *key;
        char **to;
    } keys[] = {{"license:", &out->license},
                {"license_name:", &out->license_name},
                {"license_link:", &out->license_link}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i].key);
        if (n > length && strncmp(line, keys[i].key, length) == 0 && *keys[i].to == NULL)
            *keys[i].to = scalar(line + length, n - length);
    }
}

/* Reads the lines between the first two that are "---". */
static void read_header(const char *text, weft__base_card *out)
{
    bool inside = false;
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const size_t n = (size_t)(end - line) - (end > line && end[-1] == '\r');
        const bool mark = n == 3 && strncmp(line, "---", 3) == 0;
        if (mark == inside) /* the end, or a text without a header */
            return;
        inside = inside || mark;
        if (!mark)
            read_line(line, n, out);
    }
}

/* ORG/NAME of a path in the hub's cache, .../models--ORG--NAME/snapshots/...; NULL: another. */
static char *name_of(const char *path)
{
    static const char mark[] = "models--", after[] = "/snapshots/";
    const char *at = strstr(path, mark), *end = at ? strstr(at, after) : NULL;
    const char *dashes = at ? strstr(at + strlen(mark), "--") : NULL;
    at += at ? strlen(mark) : 0;
    return end && dashes && dashes < end ? weft_format("%.*s/%.*s", (int)(dashes - at), at,
                                                       (int)(end - dashes - 2), dashes + 2)
                                         : NULL;
}

void weft__base_card_read(const char *model, weft__base_card *out)
{
    *out = (weft__base_card){.name = name_of(model)};
    char *text = read_card(model);
    if (text)
        read_header(text, out);
    weft_free(text);
}

void weft__base_card_free(weft__base_card *card)
{
    weft_free(card->license);
    weft_free(card->license_name);
    weft_free(card->license_link);
    weft_free(card->name);
}

static void write_text(weft__text *t, const char *key, const char *text)
{
    if (text == NULL)
        return;
    weft__text_format(t, "%s: ", key);
    weft__text_quote(t, text);
    weft__text_format(t, "\n");
}

void weft__base_card_write(weft__text *t, const weft__base_card *card)
{
    write_text(t, "license", card->license);
    write_text(t, "license_name", card->license_name);
    write_text(t, "license_link", card->license_link);
}
