/* cli/eval_rows.c -- the rows of weft eval's tasks: prompts with answers, or with choices. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"

/* ---- One row -------------------------------------------------------------------------------- */

static const char *type_of(json_object *value)
{
    return value ? json_type_to_name(json_object_get_type(value)) : "null";
}

static weft_status wrong(const eval_row *row, const char *member, const char *expected,
                         json_object *found)
{
    return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected %s, got %s", weft_printable(row->file),
                     row->line, member, expected, type_of(found));
}

/* Reads a member that is an array of at least `least` strings or, with `one`, also a single string.
 */
static weft_status read_texts(eval_row *row, const char *member, bool one, size_t least)
{
    const char *expected =
        one ? "a string or an array of strings" : "an array of 2 or more strings";
    json_object *value = NULL;
    if (!json_object_object_get_ex(row->object, member, &value))
        return weft_fail(WEFT_INVALID, "%s:%zu: %s is missing: expected %s",
                         weft_printable(row->file), row->line, member, expected);
    const bool list = json_object_is_type(value, json_type_array);
    const size_t n = list ? json_object_array_length(value) : 1;
    if ((!list && !one) || n < least)
        return wrong(row, member, expected, value);
    row->texts = calloc(n, sizeof *row->texts);
    if (row->texts == NULL)
        return weft_fail(WEFT_MEMORY, "eval: out of memory for a row");
    for (size_t i = 0; i < n; i++) {
        json_object *text = list ? json_object_array_get_idx(value, i) : value;
        row->texts[i] = cli_plain_text(text);
        if (row->texts[i] == NULL)
            return wrong(row, member, expected, text);
        if (row->texts[i][0] == '\0')
            return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected text, got an empty string",
                             weft_printable(row->file), row->line, member);
    }
    row->n_texts = (int)n;
    return WEFT_OK;
}

/* Reads "answer" for --task choices: the index of a choice, from 0, or its text. */
static weft_status read_choice(eval_row *row)
{
    json_object *value = NULL;
    if (!json_object_object_get_ex(row->object, "answer", &value))
        return weft_fail(WEFT_INVALID,
                         "%s:%zu: answer is missing: expected the index or the text of a choice",
                         weft_printable(row->file), row->line);
    if (json_object_is_type(value, json_type_int)) {
        const int64_t index = json_object_get_int64(value);
        if (index < 0 || index >= row->n_texts)
            return weft_fail(WEFT_INVALID,
                             "%s:%zu: answer: expected an index from 0 to %d, got "
                             "%lld",
                             weft_printable(row->file), row->line, row->n_texts - 1,
                             (long long)index);
        row->answer = (int)index;
        return WEFT_OK;
    }
    const char *text = cli_plain_text(value);
    if (text == NULL)
        return wrong(row, "answer", "the index or the text of a choice", value);
    for (int i = 0; i < row->n_texts; i++) {
        if (strcmp(text, row->texts[i]) == 0) {
            row->answer = i;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_INVALID, "%s:%zu: answer: expected one of the choices, got '%s'",
                     weft_printable(row->file), row->line, weft_printable(text));
}

static weft_status read_prompt(eval_row *row)
{
    json_object *prompt = NULL;
    const bool has_prompt = json_object_object_get_ex(row->object, "prompt", &prompt);
    const bool has_messages = json_object_object_get_ex(row->object, "messages", &row->messages);
    if (has_prompt == has_messages)
        return weft_fail(WEFT_INVALID, "%s:%zu: expected one of prompt and messages, got %s",
                         weft_printable(row->file), row->line, has_prompt ? "both" : "neither");
    row->prompt = cli_plain_text(prompt);
    if (has_prompt && row->prompt == NULL)
        return wrong(row, "prompt", "a string", prompt);
    if (has_messages && !json_object_is_type(row->messages, json_type_array))
        return wrong(row, "messages", "an array", row->messages);
    return WEFT_OK;
}

static weft_status read_row(int task, const cli_line *line, eval_row *row)
{
    row->object = cli_parse_json(line->text, line->length);
    if (!json_object_is_type(row->object, json_type_object))
        return weft_fail(WEFT_INVALID, "%s:%zu: expected a JSON object, got %s",
                         weft_printable(row->file), row->line,
                         row->object ? type_of(row->object) : weft_error_message());
    weft_status status = read_prompt(row);
    if (status != WEFT_OK)
        return status;
    if (task == EVAL_EXACT)
        return read_texts(row, "answer", true, 1);
    status = read_texts(row, "choices", false, 2);
    return status == WEFT_OK ? read_choice(row) : status;
}

static void free_row(eval_row *row)
{
    json_object_put(row->object);
    free(row->texts);
}

/* ---- All rows ------------------------------------------------------------------------------- */

static weft_status add_row(eval_rows *rows, const eval_row *row)
{
    if (rows->n == rows->room) {
        const size_t more = 2 * rows->room + 64;
        eval_row *at = realloc(rows->at, more * sizeof *at);
        if (at == NULL)
            return weft_fail(WEFT_MEMORY, "eval: out of memory for the rows");
        rows->at = at;
        rows->room = more;
    }
    rows->at[rows->n++] = *row;
    return WEFT_OK;
}

static weft_status read_lines(const eval_values *v, const char *file, const cli_lines *lines,
                              eval_rows *out)
{
    for (size_t i = 0; i < lines->n; i++) {
        if (v->rows != CLI_ABSENT && out->n == (size_t)v->rows)
            return WEFT_OK;
        eval_row row = {.file = strcmp(file, "-") == 0 ? "standard input" : file,
                        .line = lines->at[i].number};
        weft_status status = read_row(v->task, &lines->at[i], &row);
        if (status == WEFT_INVALID && out->bad < v->source.max_bad_rows) {
            weft_log_message(WEFT_LOG_WARNING, "skipped a bad row: %s", weft_error_message());
            out->bad++;
            free_row(&row);
            continue;
        }
        if (status == WEFT_OK)
            status = add_row(out, &row);
        if (status != WEFT_OK) {
            free_row(&row);
            return status;
        }
    }
    return WEFT_OK;
}

weft_status eval_rows_read(const eval_values *v, eval_rows *out)
{
    const int n = v->source.paths.n;
    *out = (eval_rows){.files = calloc((size_t)n, sizeof *out->files)};
    if (out->files == NULL)
        return weft_fail(WEFT_MEMORY, "eval: out of memory for the files");
    for (int i = 0; i < n; i++) {
        const char *file = v->source.paths.at[i];
        weft_status status = cli_lines_read(file, false, &out->files[out->n_files++]);
        if (status == WEFT_OK)
            status = read_lines(v, file, &out->files[i], out);
        if (status != WEFT_OK)
            return status;
    }
    return out->n > 0 ? WEFT_OK
                      : weft_fail(WEFT_INVALID, "%s: there are no rows",
                                  weft_printable(cli_data_first(&v->source)));
}

void eval_rows_free(eval_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        free_row(&rows->at[i]);
    for (int i = 0; i < rows->n_files; i++)
        cli_lines_free(&rows->files[i]);
    free(rows->at);
    free(rows->files);
    *rows = (eval_rows){0};
}

weft_status eval_prompt(const eval_run *run, const eval_row *row, char **text, bool *special)
{
    const weft_chat_message user = {.role = "user", .content = row->prompt};
    const weft_chat_options o = {.generation_prompt = true};
    char *json = NULL;
    weft_status status = WEFT_OK;
    *special = row->prompt != NULL && !run->values->chat;
    *text = NULL;
    if (*special) {
        *text = weft_strdup(row->prompt);
        return *text ? WEFT_OK : weft_fail(WEFT_MEMORY, "eval: out of memory for a prompt");
    }
    if (run->chat == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "%s:%zu: %s needs a chat template, and %s has none",
                         weft_printable(row->file), row->line,
                         row->prompt ? "--chat" : "a row with messages",
                         weft_printable(run->subject->path));
    if (row->prompt)
        status = weft_chat_messages(&user, 1, &json);
    if (status == WEFT_OK)
        status = weft_chat_render(
            run->chat, json ? json : json_object_to_json_string(row->messages), &o, text, NULL);
    weft_free(json);
    if (status != WEFT_OK) {
        char *why = weft_strdup(weft_error_message());
        weft_fail(status, "%s:%zu: %s", weft_printable(row->file), row->line, why ? why : "");
        weft_free(why);
    }
    return status;
}
