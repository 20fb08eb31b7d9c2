/* cli/lines.c -- files of lines: plain ones, and lines of JSON. */
#include "cli/lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

/* ---- A line of JSON ------------------------------------------------------------------------- */

/* The code unit of "\\uXXXX", or -1. */
static long code_unit(const char *at)
{
    char digits[5] = {0}, *end;
    if (at[0] != '\\' || at[1] != 'u')
        return -1;
    strncpy(digits, at + 2, 4);
    long unit = strtol(digits, &end, 16);
    return end == digits + 4 ? unit : -1;
}

/* Writes escaped surrogate pairs as the characters that they are: json-c takes some of them, such
 * as U+1D800, for something else. Returns the new length. */
static size_t join_pairs(char *line)
{
    char *to = line;
    for (const char *from = line; *from != '\0';) {
        long high = code_unit(from);
        long low = high >= 0xD800 && high < 0xDC00 ? code_unit(from + 6) : -1;
        if (low >= 0xDC00 && low < 0xE000) {
            unsigned code = 0x10000u + ((unsigned)(high - 0xD800) << 10) + (unsigned)(low - 0xDC00);
            *to++ = (char)(0xF0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3F));
            *to++ = (char)(0x80 | (code >> 6 & 0x3F));
            *to++ = (char)(0x80 | (code & 0x3F));
            from += 12;
            continue;
        }
        if (*from == '\\' && from[1] != '\0')
            *to++ = *from++; /* and what it escapes, which may be another */
        *to++ = *from++;
    }
    *to = '\0';
    return (size_t)(to - line);
}

json_object *cli_parse_line(char *line, size_t length)
{
    if (strlen(line) == length) /* a NUL is no JSON, and the parser says so */
        length = join_pairs(line);
    json_tokener *parser = json_tokener_new();
    if (parser == NULL)
        return NULL;
    json_tokener_set_flags(parser, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *value = json_tokener_parse_ex(parser, line, (int)length + 1);
    bool whole = json_tokener_get_error(parser) == json_tokener_success &&
                 json_tokener_get_parse_end(parser) >= length;
    json_tokener_free(parser);
    if (whole)
        return value;
    json_object_put(value);
    return NULL;
}

/* ---- All lines ------------------------------------------------------------------------------ */

static bool blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    }
    return true;
}

/* Adds a line; room grows by doubling. */
static weft_status add(cli_lines *lines, size_t *room, char *text, size_t length, size_t number)
{
    if (lines->n == *room) {
        const size_t more = *room > 0 ? 2 * *room : 64;
        cli_line *at = realloc(lines->at, more * sizeof *at);
        if (at == NULL)
            return weft_fail(WEFT_MEMORY, "no memory for the lines");
        lines->at = at;
        *room = more;
    }
    lines->at[lines->n++] = (cli_line){text, length, number};
    return WEFT_OK;
}

weft_status cli_lines_read(const char *path, cli_lines *lines)
{
    size_t length = 0, room = 0, number = 0;
    weft_status status = WEFT_OK;
    *lines = (cli_lines){0};
    if (strcmp(path, "-") != 0)
        status = weft_file_read(path, 0, &lines->from_file, &length);
    else if ((lines->from_stdin = cli_read_all(stdin, &length)) == NULL)
        status = weft_fail(WEFT_IO, "standard input: cannot be read");
    if (status != WEFT_OK)
        return status;
    char *text = lines->from_file != NULL ? lines->from_file : lines->from_stdin;
    for (char *end = text + length; status == WEFT_OK && text < end;) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        size_t n = (size_t)(stop - text);
        if (n > 0 && text[n - 1] == '\r')
            n--;
        text[n] = '\0'; /* what was read is followed by a NUL */
        number++;
        if (!blank(text, n))
            status = add(lines, &room, text, n, number);
        text = stop + 1;
    }
    return status;
}

void cli_lines_free(cli_lines *lines)
{
    weft_free(lines->from_file);
    free(lines->from_stdin);
    free(lines->at);
    *lines = (cli_lines){0};
}
