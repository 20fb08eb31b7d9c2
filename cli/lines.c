/* cli/lines.c -- reads files line by line, and parses JSON. */
#include "cli/lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "core/io/json_parse.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

json_object *cli_parse_json(const char *text, size_t length)
{
    json_object *value = NULL;
    return weft__json_parse_value(text, length, "JSON", &value) == WEFT_OK ? value : NULL;
}

const char *cli_plain_text(json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return NULL;
    const char *text = json_object_get_string(value);
    return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

/* ---- All lines ------------------------------------------------------------------------------ */

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    }
    return true;
}

/* Adds a line; the capacity doubles when it is exhausted. */
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

weft_status cli_lines_read(const char *path, bool blank, cli_lines *lines)
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
    char *const start = text;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3; /* skips a byte order mark */
    for (char *end = start + length; status == WEFT_OK && text < end;) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop != NULL ? stop : end;
        size_t n = (size_t)(stop - text);
        if (n > 0 && text[n - 1] == '\r')
            n--;
        text[n] = '\0'; /* the text that was read ends with a NUL */
        number++;
        if (blank || !is_blank(text, n))
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
