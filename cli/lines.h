/* cli/lines.h -- files of lines: plain ones, and lines of JSON. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>

#include <json-c/json.h>

#include "weft/status.h"

/* Parses JSON by the rules of core/io/json_parse.h; NULL when it is malformed or null. The caller
 * releases the result with json_object_put. */
json_object *cli_parse_json(const char *text, size_t length);

/* The text of a string without NULs; NULL for any other value. */
const char *cli_plain_text(json_object *value);

typedef struct cli_line {
    char *text; /* NUL-terminated, without the end of the line */
    size_t length;
    size_t number; /* in the file, from 1 */
} cli_line;

/* The lines of a file. */
typedef struct cli_lines {
    cli_line *at;
    size_t n;
    char *from_file, *from_stdin; /* one of them */
} cli_lines;

/* "-" is standard input. Without `blank`, lines of spaces and tabs are left out. Free with
 * cli_lines_free, after a failure too. */
weft_status cli_lines_read(const char *path, bool blank, cli_lines *lines);
void cli_lines_free(cli_lines *lines);

#endif
