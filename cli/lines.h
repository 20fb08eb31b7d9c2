/* cli/lines.h -- reads files line by line, and parses JSON. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>

#include <json-c/json.h>

#include "weft/status.h"

/* Parses JSON by the rules of core/io/json_parse.h; NULL when it is malformed or null. The caller
 * releases the result with json_object_put. */
json_object *cli_parse_json(const char *text, size_t length);

/* The text of a JSON string without NUL characters; NULL for any other value. */
const char *cli_plain_text(json_object *value);

typedef struct cli_line {
    char *text; /* NUL-terminated, without its newline */
    size_t length;
    size_t number; /* line number in the file, from 1 */
} cli_line;

/* The lines of a file. */
typedef struct cli_lines {
    cli_line *at;
    size_t n;
    char *from_file, *from_stdin; /* owns the lines' texts; the other is NULL */
} cli_lines;

/* Reads a file ("-": standard input). Unless `blank`, lines that contain only spaces and tabs are
 * skipped. Free with cli_lines_free, also after a failure. */
weft_status cli_lines_read(const char *path, bool blank, cli_lines *lines);
void cli_lines_free(cli_lines *lines);

#endif
