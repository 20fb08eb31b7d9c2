/* cli/inputs.c -- the texts of a command that takes many: from its arguments, or the lines of a
 * file. */
#include "cli/inputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *cli_inputs_complaint(const cli_words *texts, const char *file)
{
    if (texts->n > 0 && file != NULL)
        return "takes TEXT or --file FILE, not both";
    if (texts->n == 0 && file == NULL && isatty(STDIN_FILENO))
        return "needs TEXT, --file FILE or texts on standard input";
    return NULL;
}

/* Reads the text of a line: the line itself, or a member of its JSON object. */
static void read_line(const cli_line *line, const char *file, cli_input *input)
{
    json_object *object = NULL, *value = NULL;
    *input = (cli_input){
        .text = line->text, .length = line->length, .file = file, .number = line->number};
    if (line->text[0] != '{')
        return;
    object = cli_parse_json(line->text, line->length);
    if (object == NULL)
        weft_fail(WEFT_INVALID, "not JSON");
    else if (!json_object_object_get_ex(object, "prompt", &value) &&
             !json_object_object_get_ex(object, "text", &value))
        weft_fail(WEFT_INVALID, "neither prompt nor text");
    else if (!json_object_is_type(value, json_type_string))
        weft_fail(WEFT_INVALID, "prompt: expected a string");
    else
        input->object = object;
    if (input->object == NULL) {
        json_object_put(object);
        cli_input_fail(input);
        return;
    }
    input->text = json_object_get_string(value);
    input->length = (size_t)json_object_get_string_len(value);
}

weft_status cli_inputs_read(const char *command, const cli_words *texts, const char *file,
                            cli_inputs *out)
{
    const bool lines = texts->n == 0;
    weft_status status =
        lines ? cli_lines_read(file != NULL ? file : "-", true, &out->lines) : WEFT_OK;
    const size_t n = lines ? out->lines.n : (size_t)texts->n;
    if (status != WEFT_OK)
        return status;
    out->at = calloc(n + 1, sizeof *out->at);
    if (out->at == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory", command);
    out->n = n;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "%s: there are no texts", command);
    for (size_t i = 0; i < n; i++) {
        if (lines)
            read_line(&out->lines.at[i], file != NULL ? file : "-", &out->at[i]);
        else
            out->at[i] =
                (cli_input){.text = texts->at[i], .length = strlen(texts->at[i]), .number = i + 1};
    }
    return WEFT_OK;
}

static weft_status encode(cli_input *t, const weft_tokenizer *tokenizer, const char *before,
                          unsigned flags)
{
    const size_t n = before != NULL ? strlen(before) : 0;
    if (n == 0)
        return weft_tokenizer_encode(tokenizer, t->text, t->length, flags, &t->ids, &t->n_ids);
    char *text = malloc(n + t->length + 1);
    if (text == NULL)
        return weft_fail(WEFT_MEMORY, "no memory");
    memcpy(text, before, n);
    memcpy(text + n, t->text, t->length);
    const weft_status status =
        weft_tokenizer_encode(tokenizer, text, n + t->length, flags, &t->ids, &t->n_ids);
    free(text);
    return status;
}

void cli_inputs_encode(cli_inputs *inputs, const weft_tokenizer *tokenizer, const char *before,
                       bool no_special)
{
    const unsigned flags = no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL;
    for (size_t i = 0; i < inputs->n; i++) {
        cli_input *t = &inputs->at[i];
        if (t->message == NULL && encode(t, tokenizer, before, flags) != WEFT_OK)
            cli_input_fail(t);
    }
}

void cli_input_fail(cli_input *input)
{
    const char *file = input->file;
    if (input->message != NULL)
        return;
    if (file == NULL)
        weft_fail(WEFT_INVALID, "text %zu: %s", input->number, weft_error_message());
    else
        weft_fail(WEFT_INVALID, "%s: line %zu: %s",
                  strcmp(file, "-") == 0 ? "standard input" : weft_printable(file), input->number,
                  weft_error_message());
    input->message = strdup(weft_error_message());
}

bool cli_inputs_any_failed(const cli_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        if (inputs->at[i].message != NULL)
            return true;
    }
    return false;
}

void cli_inputs_free(cli_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        json_object_put(inputs->at[i].object);
        weft_free(inputs->at[i].ids);
        free(inputs->at[i].message);
    }
    free(inputs->at);
    cli_lines_free(&inputs->lines);
    *inputs = (cli_inputs){0};
}
