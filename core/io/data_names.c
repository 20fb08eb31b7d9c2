/* core/io/data_names.c -- the formats of data files: their names and endings. */
#include "core/io/data_names.h"

#include <string.h>
#include <strings.h>

#include "weft/tool/options.h"

#define WORD(ID, word, ...) [WEFT_DATA_##ID] = #word,
static const char *const words[WEFT_DATA_FORMATS] = {"auto", WEFT__DATA_FORMATS(WORD)};
#undef WORD

#define ENDINGS(ID, word, title, ...) [WEFT_DATA_##ID] = {__VA_ARGS__},
static const char *const endings[WEFT_DATA_FORMATS][3] = {WEFT__DATA_FORMATS(ENDINGS)};
#undef ENDINGS

const char *weft_data_format_name(weft_data_format format)
{
    return (size_t)format < WEFT_DATA_FORMATS ? words[format] : "none";
}

#define TITLE(ID, word, title, ...) ", " title
const char *weft__data_titles(void)
{
    return &(WEFT__DATA_FORMATS(TITLE))[2];
}
#undef TITLE

#define WORD(ID, word, ...) ", " #word
const char *weft__data_words(void)
{
    return &(WEFT__DATA_FORMATS(WORD))[2];
}
#undef WORD

/* Whether the first n characters of a path end in this. */
static bool ends_in(const char *path, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n >= m && strncasecmp(path + n - m, end, m) == 0;
}

/* The length of a path without the ending of compressed files, and their method. */
static size_t unpacked_length(const char *path, weft__codec *codec)
{
    static const struct {
        const char *end;
        weft__codec codec;
    } known[] = {{".gz", WEFT__GZIP}, {".zst", WEFT__ZSTD}, {".zstd", WEFT__ZSTD}};
    const size_t n = strlen(path);
    *codec = WEFT__UNCOMPRESSED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (ends_in(path, n, known[i].end)) {
            *codec = known[i].codec;
            return n - strlen(known[i].end);
        }
    }
    return n;
}

weft__codec weft__data_codec(const char *path)
{
    weft__codec codec;
    unpacked_length(path, &codec);
    return codec;
}

weft_data_format weft__data_named(const char *path)
{
    weft__codec codec;
    const size_t n = unpacked_length(path, &codec);
    for (int f = 0; f < WEFT_DATA_FORMATS; f++) {
        for (int i = 0; endings[f][i]; i++) {
            if (ends_in(path, n, endings[f][i]))
                return (weft_data_format)f;
        }
    }
    return WEFT_DATA_AUTO;
}

weft_status weft__data_format_named(const char *path, weft_data_format *out)
{
    /* These would be nonsense if they were read as plain text. */
    static const char *const refused[] = {".arrow", ".feather", ".xlsx", ".bz2", ".xz",
                                          ".zip",   ".tar",     ".tgz",  ".pdf"};
    weft__codec codec;
    const size_t n = unpacked_length(path, &codec);
    *out = weft__data_named(path);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (ends_in(path, n, refused[i]))
            return weft_fail(WEFT_UNSUPPORTED, "%s: expected one of %s: %s files cannot be read",
                             path, weft__data_titles(), refused[i]);
    }
    return WEFT_OK;
}
