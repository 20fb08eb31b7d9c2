/* cli/tokenize.c -- weft tokenize: converts text to token ids and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/lines.h"
#include "cli/shared.h"

typedef struct tokenize_values {
    const char *model, *prompt, *file;
    bool jsonl, decode, special, json;
} tokenize_values;

#define AT(field) .offset = offsetof(tokenize_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(tokenize_values, model), false}};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(tokenize_values, NULL,
                      "what to encode (or decode); default: all of standard input"),
    CLI_FILE_OPTION(tokenize_values, "encode (or decode) a file"),
    {.name = "jsonl",
     .kind = CLI_FLAG,
     AT(jsonl),
     .help = "read one JSON string a line, write one JSON array of ids a line"},
    {.name = "decode",
     .kind = CLI_FLAG,
     AT(decode),
     .help = "the reverse: ids in, text out; special tokens are kept"},
    {.name = "special",
     .kind = CLI_FLAG,
     AT(special),
     .help = "add the special tokens that the tokenizer puts around a text"},
    CLI_JSON_OPTION(tokenize_values, "without --jsonl: print one JSON object with ids and tokens"),
};

/* ---- Lines of JSON -------------------------------------------------------------------------- */

static weft_status encode_line(const weft_tokenizer *tokenizer, unsigned flags, json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return weft_fail(WEFT_INVALID, "expected a JSON string");
    int32_t *ids;
    size_t n;
    weft_status status =
        weft_tokenizer_encode(tokenizer, json_object_get_string(value),
                              (size_t)json_object_get_string_len(value), flags, &ids, &n);
    if (status != WEFT_OK)
        return status;
    putchar('[');
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i > 0 ? ", " : "", (int)ids[i]);
    puts("]");
    weft_free(ids);
    return WEFT_OK;
}

/* Reads the ids of a JSON array; the caller frees *ids with free. */
static weft_status ids_of(json_object *value, int32_t **ids, size_t *n)
{
    *ids = NULL;
    if (!json_object_is_type(value, json_type_array))
        return weft_fail(WEFT_INVALID, "expected a JSON array of ids");
    *n = json_object_array_length(value);
    *ids = malloc((*n + 1) * sizeof **ids);
    if (*ids == NULL)
        return weft_fail(WEFT_MEMORY, "no memory");
    for (size_t i = 0; i < *n; i++) {
        json_object *item = json_object_array_get_idx(value, i);
        int64_t id = json_object_get_int64(item);
        if (!json_object_is_type(item, json_type_int) || id < 0 || id > INT32_MAX)
            return weft_fail(WEFT_INVALID, "item %zu: expected an id", i);
        (*ids)[i] = (int32_t)id;
    }
    return WEFT_OK;
}

/* Fails on ids outside the vocabulary, which would decode to empty text. */
static weft_status check_ids(const weft_tokenizer *tokenizer, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (weft_tokenizer_id_to_token(tokenizer, ids[i]) == NULL)
            return weft_fail(WEFT_INVALID, "item %zu: the vocabulary has no id %d", i, (int)ids[i]);
    }
    return WEFT_OK;
}

static weft_status decode_line(const weft_tokenizer *tokenizer, json_object *value)
{
    int32_t *ids;
    size_t n = 0, length = 0;
    char *text;
    weft_status status = ids_of(value, &ids, &n);
    if (status == WEFT_OK)
        status = check_ids(tokenizer, ids, n);
    if (status == WEFT_OK)
        status = weft_tokenizer_decode(tokenizer, ids, n, 0, &text, &length);
    if (status == WEFT_OK) {
        cli_json_text(stdout, text, length);
        putchar('\n');
        weft_free(text);
    }
    free(ids);
    return status;
}

static weft_status one_line(const tokenize_values *v, const weft_tokenizer *tokenizer, char *line,
                            size_t length)
{
    json_object *value = cli_parse_json(line, length);
    weft_status status;
    if (value == NULL)
        status = weft_fail(WEFT_INVALID, "not JSON");
    else if (v->decode)
        status = decode_line(tokenizer, value);
    else
        status = encode_line(tokenizer, v->special ? WEFT_TOKENIZER_ADD_SPECIAL : 0, value);
    json_object_put(value);
    return status;
}

static weft_status run_lines(const tokenize_values *v, const weft_tokenizer *tokenizer)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    long long number = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (length = getline(&line, &room, stdin)) >= 0) {
        number++;
        if (length > 0 && line[length - 1] == '\n')
            line[--length] = '\0';
        status = one_line(v, tokenizer, line, (size_t)length);
        if (status != WEFT_OK)
            weft_fail(status, "tokenize: line %lld: %s", number, weft_error_message());
    }
    if (status == WEFT_OK && ferror(stdin))
        status = weft_fail(WEFT_IO, "tokenize: standard input: %s", strerror(errno));
    free(line);
    return status;
}

/* ---- Plain text ----------------------------------------------------------------------------- */

static weft_status encode_text(const tokenize_values *v, const weft_tokenizer *tokenizer,
                               const char *text, size_t length)
{
    int32_t *ids;
    size_t n;
    weft_status status = weft_tokenizer_encode(
        tokenizer, text, length, v->special ? WEFT_TOKENIZER_ADD_SPECIAL : 0, &ids, &n);
    if (status != WEFT_OK)
        return status;
    fputs(v->json ? "{\"ids\": [" : "", stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i == 0 ? "" : v->json ? ", " : " ", (int)ids[i]);
    fputs(v->json ? "], \"tokens\": [" : "\n", stdout);
    for (size_t i = 0; v->json && i < n; i++) {
        const char *token = weft_tokenizer_id_to_token(tokenizer, ids[i]);
        fputs(i == 0 ? "" : ", ", stdout);
        cli_json_text(stdout, token != NULL ? token : "", token != NULL ? strlen(token) : 0);
    }
    fputs(v->json ? "]}\n" : "", stdout);
    weft_free(ids);
    return WEFT_OK;
}

/* Skips separators. */
static const char *next_word(const char *text)
{
    return text + strspn(text, " \t\r\n,");
}

/* Reads the next id at *text and advances *text past it. */
static weft_status read_id(const char **text, int32_t *id)
{
    const size_t length = strcspn(*text, " \t\r\n,]");
    char *end;
    errno = 0;
    const long long value = strtoll(*text, &end, 10);
    if (length == 0 || end != *text + length || value < 0 || value > INT32_MAX || errno != 0)
        return weft_fail(WEFT_INVALID, "tokenize: expected token ids, got '%.*s'",
                         (int)(length == 0   ? 1
                               : length < 40 ? length
                                             : 40),
                         *text);
    *id = (int32_t)value;
    *text = end;
    return WEFT_OK;
}

/* Reads ids separated by spaces or commas, optionally in brackets; the caller frees *ids with free.
 */
static weft_status read_ids(const char *text, int32_t **ids, size_t *n)
{
    *n = 0;
    *ids = malloc((strlen(text) / 2 + 1) * sizeof **ids);
    if (*ids == NULL)
        return weft_fail(WEFT_MEMORY, "tokenize: out of memory for ids");
    text = next_word(text);
    const bool list = *text == '[';
    text = next_word(text + list);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && *text != '\0' && !(list && *text == ']')) {
        status = read_id(&text, &(*ids)[*n]);
        *n += status == WEFT_OK;
        text = next_word(text);
    }
    if (status != WEFT_OK)
        return status;
    if (list && (*text != ']' || *next_word(text + 1) != '\0'))
        return weft_fail(WEFT_INVALID, "tokenize: expected one list of token ids in brackets");
    return list || *n > 0 ? WEFT_OK : weft_fail(WEFT_INVALID, "tokenize: expected token ids");
}

static weft_status decode_text(const weft_tokenizer *tokenizer, const char *text,
                               size_t text_length)
{
    if (strlen(text) != text_length)
        return weft_fail(WEFT_INVALID, "tokenize: expected token ids, got a NUL byte");
    int32_t *ids;
    size_t n;
    weft_status status = read_ids(text, &ids, &n);
    char *decoded = NULL;
    size_t length = 0;
    if (status == WEFT_OK)
        status = check_ids(tokenizer, ids, n);
    if (status == WEFT_OK)
        status = weft_tokenizer_decode(tokenizer, ids, n, 0, &decoded, &length);
    if (status == WEFT_OK) {
        cli_write_text(decoded, length);
        putchar('\n');
    }
    weft_free(decoded);
    free(ids);
    return status;
}

static weft_status run_text(const tokenize_values *v, const weft_tokenizer *tokenizer)
{
    size_t length = 0;
    char *text = NULL;
    weft_status status = cli_read_text(v->prompt, v->file, &text, &length);
    if (status == WEFT_OK)
        status = v->decode ? decode_text(tokenizer, text, length)
                           : encode_text(v, tokenizer, text, length);
    weft_free(text);
    return status;
}

static int run(void *context)
{
    const tokenize_values *v = context;
    if (v->jsonl && (v->prompt != NULL || v->file != NULL))
        return cli_usage("tokenize", "--jsonl reads standard input, not --prompt or --file");
    if (cli_text_complaint(v->prompt, v->file) != NULL)
        return cli_usage("tokenize", "%s", cli_text_complaint(v->prompt, v->file));
    char path[4096];
    weft_tokenizer *tokenizer = NULL;
    weft_status status = cli_tokenizer_path(v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(path, &tokenizer);
    if (status == WEFT_OK)
        status = v->jsonl ? run_lines(v, tokenizer) : run_text(v, tokenizer);
    weft_tokenizer_free(tokenizer);
    return cli_status(status);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids, and back",
    .description =
        "Encodes standard input, --prompt or --file with the tokenizer.json of a model. Added "
        "tokens that stand in the text are recognized; no special tokens are added "
        "unless --special says so. MODEL may be the tokenizer.json itself.",
    .example = "weft tokenize storyteller -p \"Once upon a time\"\n"
               "weft tokenize MODEL --jsonl < strings.jsonl > ids.jsonl\n"
               "weft tokenize MODEL --jsonl --decode < ids.jsonl",
    CLI_TABLE(tokenize_values, arguments, options),
    .run = run,
};
