/* cli/train_config.c -- the options of weft train as a JSON file: read by --config, and written
 * into the folder of a run. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/train.h"
#include "core/io/json_parse.h"

static weft_status wrong(const train_values *v, const char *key, const char *expected,
                         json_object *found)
{
    return weft_fail(WEFT_INVALID, "%s: %s: expected %s, got %s", weft_printable(v->config),
                     weft_printable(key), expected,
                     found ? json_type_to_name(json_object_get_type(found)) : "null");
}

static const cli_option *option_called(const char *name)
{
    for (int i = 0; i < cli_train.n_options; i++) {
        if (strcmp(cli_train.options[i].name, name) == 0)
            return &cli_train.options[i];
    }
    return NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void add_option(cli_word_list *out, const char *name, const char *text)
{
    char word[80];
    snprintf(word, sizeof word, "--%s", name);
    cli_words_add(out, word);
    if (text)
        cli_words_add(out, text);
}

static weft_status add_text(const train_values *v, const cli_option *o, json_object *value,
                            cli_word_list *out)
{
    const bool number = o->kind == CLI_INT || o->kind == CLI_REAL;
    const char *text = cli_plain_text(value);
    if (text == NULL && number &&
        (json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double)))
        text = json_object_to_json_string(value);
    if (text == NULL)
        return wrong(v, o->name, number ? "a number" : "a string", value);
    add_option(out, o->name, text);
    return WEFT_OK;
}

static weft_status add_member(const train_values *v, const char *key, json_object *value,
                              cli_word_list *out)
{
    const cli_option *o = option_called(key);
    if (o == NULL || strcmp(key, "config") == 0)
        return weft_fail(WEFT_INVALID,
                         "%s: there is no option '%s'; weft train --help lists the options",
                         weft_printable(v->config), weft_printable(key));
    if (value == NULL)
        return WEFT_OK;
    if (o->kind == CLI_FLAG) {
        if (!json_object_is_type(value, json_type_boolean))
            return wrong(v, key, "true or false", value);
        if (json_object_get_boolean(value))
            add_option(out, key, NULL);
        return WEFT_OK;
    }
    if (o->kind != CLI_TEXTS || !json_object_is_type(value, json_type_array))
        return add_text(v, o, value, out);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < json_object_array_length(value); i++)
        status = add_text(v, o, json_object_array_get_idx(value, i), out);
    return status;
}

/* --steps and --epochs replace each other. */
static bool is_replaced(const train_values *v, const char *key)
{
    const char *other = strcmp(key, "steps") == 0    ? "epochs"
                        : strcmp(key, "epochs") == 0 ? "steps"
                                                     : NULL;
    return other && cli_is_given(&cli_train, &v->given, other);
}

static weft_status add_members(const train_values *v, json_object *root, cli_word_list *out)
{
    const char *model = NULL;
    weft_status status = WEFT_OK;
    json_object_object_foreach(root, key, value)
    {
        if (strcmp(key, "model") == 0) {
            model = cli_plain_text(value);
            if (model == NULL)
                status = wrong(v, key, "a string", value);
        } else if (!is_replaced(v, key)) {
            status = add_member(v, key, value, out);
        }
        if (status != WEFT_OK)
            return status;
    }
    cli_words_add(out, "--");
    if (model)
        cli_words_add(out, model);
    return WEFT_OK;
}

/* The file under the command line, as words to be parsed again. */
static weft_status read_config(train_values *v, cli_word_list *words)
{
    char *text;
    size_t size;
    json_object *root = NULL;
    cli_word_list read = {.n = 0};
    const cli_given given = v->given;
    weft_status status = weft_file_read(v->config, 0, &text, &size);
    if (status != WEFT_OK)
        return status;
    status = weft__json_parse_value(text, size, v->config, &root);
    weft_free(text);
    if (status == WEFT_OK && !json_object_is_type(root, json_type_object))
        status = weft_fail(WEFT_INVALID, "%s: expected a JSON object of options",
                           weft_printable(v->config));
    if (status == WEFT_OK)
        status = add_members(v, root, &read);
    if (status == WEFT_OK)
        *words = cli_merge_words(&cli_train, read.at, read.n, &given);
    if (status == WEFT_OK && (read.failed || words->failed))
        status = weft_fail(WEFT_MEMORY, "train: out of memory for the options of a file");
    json_object_put(root);
    cli_words_free(&read);
    return status;
}

int train_with_config(train_values *v, int (*run)(train_values *v))
{
    if (v->config == NULL)
        return run(v);
    cli_word_list words = {.n = 0};
    int code = CLI_USAGE;
    if (read_config(v, &words) != WEFT_OK)
        code = cli_status(weft_error_status());
    else if (cli_parse(&cli_train, words.n, words.at, v) == CLI_PARSED_RUN)
        code = run(v);
    cli_words_free(&words);
    return code;
}

/* ---- writing -------------------------------------------------------------------------------- */

static json_object *value_of(const cli_option *o, const char *text)
{
    json_object *number = NULL;
    if (o->kind == CLI_FLAG)
        return json_object_new_boolean(true);
    if ((o->kind == CLI_INT || o->kind == CLI_REAL) &&
        weft__json_parse_value(text, strlen(text), "option", &number) == WEFT_OK)
        return number;
    return json_object_new_string(text);
}

/* An option that is there a second time becomes an array. */
static void add_value(json_object *root, const cli_option *o, const char *text)
{
    json_object *before = NULL, *value = value_of(o, text);
    if (o->kind != CLI_TEXTS || !json_object_object_get_ex(root, o->name, &before)) {
        json_object_object_add(root, o->name, value);
        return;
    }
    if (!json_object_is_type(before, json_type_array)) {
        json_object *array = json_object_new_array();
        json_object_array_add(array, json_object_get(before));
        json_object_object_add(root, o->name, array);
        before = array;
    }
    json_object_array_add(before, value);
}

/* With --init-adapter, the defaults of an adapter's options are left out: they contradict it. */
weft_status train_write_config(const train_values *v, const cli_word_list *words)
{
    json_object *root = json_object_new_object();
    bool plain = false;
    for (int i = 0; root && i < words->n; i++) {
        const char *text = NULL;
        const cli_option *o = plain ? NULL : cli_find_option(&cli_train, words->at[i], &text);
        if (!plain && strcmp(words->at[i], "--") == 0)
            plain = true;
        else if (o == NULL)
            json_object_object_add(root, "model", json_object_new_string(words->at[i]));
        else if (o->kind == CLI_FLAG)
            add_value(root, o, "");
        else if (++i < words->n && !(v->init_adapter && train_is_of_adapter(o->name)))
            add_value(root, o, words->at[i]);
    }
    const char *text = root ? json_object_to_json_string_ext(
                                  root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)
                            : NULL;
    char *path = weft_format("%s/config.json", v->out),
         *whole = weft_format("%s\n", text ? text : "");
    weft_status status = WEFT_OK;
    if (text == NULL || path == NULL || whole == NULL)
        status = weft_fail(WEFT_MEMORY, "train: out of memory for the run's options");
    else
        status = weft_file_write(path, whole, strlen(whole));
    weft_free(path);
    weft_free(whole);
    json_object_put(root);
    return status;
}
