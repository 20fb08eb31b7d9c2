/* cli/train_config.c -- the options of weft train in a file: reads --config, and writes config.json
 * into the folder of a run. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/settings.h"
#include "cli/suggest.h"
#include "cli/train.h"
#include "core/io/json_parse.h"

static weft_status wrong(const train_values *v, const cli_setting *s, const char *expected,
                         const cli_setting_value *found)
{
    const bool quoted = found->kind == CLI_SETTING_TEXT;
    const char *text = quoted || found->kind == CLI_SETTING_NUMBER
                           ? weft_printable(found->text)
                           : cli_setting_kind_name(found->kind);
    return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected %s, got %s%s%s", weft_printable(v->config),
                     s->line, weft_printable(s->name), expected, quoted ? "'" : "", text,
                     quoted ? "'" : "");
}

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status add_value(const train_values *v, const cli_setting *s, const cli_option *o,
                             const cli_setting_value *value, cli_word_list *out)
{
    char expected[160];
    const bool number = o->kind == CLI_INT || o->kind == CLI_REAL;
    const bool text = value->kind == CLI_SETTING_TEXT ||
                      (value->kind == CLI_SETTING_NUMBER && (number || value->plain));
    if (!text)
        return wrong(v, s, number ? "a number" : "a string", value);
    if (!cli_takes_value(o, value->text, expected, sizeof expected))
        return wrong(v, s, expected, value);
    cli_words_add_option(out, o->name, value->text);
    return WEFT_OK;
}

/* Whether the option takes a list: several values, or names separated by commas. */
static bool takes_list(const cli_option *o)
{
    return o->kind == CLI_TEXTS || (o->kind == CLI_TEXT && (strchr(cli_value(o), ',') ||
                                                            strcmp(cli_value(o), "NAMES") == 0));
}

/* Joins the elements of a list with commas. */
static weft_status add_joined(const train_values *v, const cli_setting *s, const cli_option *o,
                              cli_word_list *out)
{
    char *joined = weft_strdup("");
    for (size_t i = 0; i < s->n_items && joined; i++) {
        const cli_setting_value *item = &s->items[i];
        if (item->kind != CLI_SETTING_TEXT && item->kind != CLI_SETTING_NUMBER) {
            weft_free(joined);
            return wrong(v, s, "a list of strings", item);
        }
        char *more = weft_format("%s%s%s", joined, i > 0 ? "," : "", item->text);
        weft_free(joined);
        joined = more;
    }
    if (joined == NULL)
        return weft_fail(WEFT_MEMORY, "train: out of memory for the options of a file");
    cli_words_add_option(out, o->name, joined);
    weft_free(joined);
    return WEFT_OK;
}

static weft_status unknown(const train_values *v, const cli_setting *s)
{
    cli_suggestion near = {.word = s->name};
    for (int i = 0; i < cli_train.n_options; i++) {
        if (!cli_train.options[i].hidden)
            cli_suggest_from(&near, cli_train.options[i].name);
    }
    const bool found = near.name && strcmp(near.name, s->name) != 0;
    return weft_fail(
        WEFT_INVALID, "%s:%zu: there is no option '%s'%s%s%s %s train --help lists the options",
        weft_printable(v->config), s->line, weft_printable(s->name), found ? "; is it " : "",
        found ? near.name : "", found ? "?" : ";", cli_program());
}

static weft_status add_setting(const train_values *v, const cli_setting *s, cli_word_list *out)
{
    const cli_option *o = cli_option_named(&cli_train, s->name);
    weft_status status = WEFT_OK;
    if (o == NULL || strcmp(s->name, "config") == 0)
        return unknown(v, s);
    if (s->value.kind == CLI_SETTING_NULL)
        return WEFT_OK;
    if (o->kind == CLI_FLAG) {
        if (s->value.kind != CLI_SETTING_BOOL)
            return wrong(v, s, "true or false", &s->value);
        if (strcmp(s->value.text, "true") == 0)
            cli_words_add_option(out, o->name, NULL);
        return WEFT_OK;
    }
    if (s->value.kind != CLI_SETTING_LIST || !takes_list(o))
        return add_value(v, s, o, &s->value, out);
    if (o->kind != CLI_TEXTS)
        return add_joined(v, s, o, out);
    for (size_t i = 0; status == WEFT_OK && i < s->n_items; i++)
        status = add_value(v, s, o, &s->items[i], out);
    return status;
}

/* Whether the command line replaces the setting by the other one of --steps and --epochs. */
static bool is_replaced(const train_values *v, const char *key)
{
    const char *other = strcmp(key, "steps") == 0    ? "epochs"
                        : strcmp(key, "epochs") == 0 ? "steps"
                                                     : NULL;
    return other && cli_is_given(&cli_train, &v->given, other);
}

static weft_status add_settings(const train_values *v, const cli_settings *settings,
                                cli_word_list *out)
{
    const char *model = NULL;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < settings->n; i++) {
        const cli_setting *s = &settings->at[i];
        if (strcmp(s->name, "model") == 0) {
            const bool text = s->value.kind == CLI_SETTING_TEXT || s->value.plain;
            model = text ? s->value.text : NULL;
            if (model == NULL)
                status = wrong(v, s, "a string", &s->value);
        } else if (!is_replaced(v, s->name)) {
            status = add_setting(v, s, out);
        }
    }
    cli_words_add(out, "--");
    if (model)
        cli_words_add(out, model);
    return status;
}

/* Merges the command line over the options of the file; the result is parsed again. */
static weft_status read_config(train_values *v, cli_word_list *words)
{
    char *text = NULL;
    size_t size = 0;
    cli_settings settings = {0};
    cli_word_list read = {.n = 0};
    const cli_given given = v->given;
    weft_status status = weft_file_read(v->config, 0, &text, &size);
    if (status == WEFT_OK)
        status = cli_settings_parse(text, size, v->config, &settings);
    weft_free(text);
    if (status == WEFT_OK)
        status = add_settings(v, &settings, &read);
    if (status == WEFT_OK)
        *words = cli_merge_words(&cli_train, read.at, read.n, &given);
    if (status == WEFT_OK && (read.failed || words->failed))
        status = weft_fail(WEFT_MEMORY, "train: out of memory for the options of a file");
    cli_settings_free(&settings);
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

/* Adds an option; the values of a repeated option form an array. */
static void add_member(json_object *root, const cli_option *o, const char *text)
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

/* Omits the defaults of options that --init-adapter determines or --full does not use. */
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
            add_member(root, o, "");
        else if (++i < words->n && !train_is_unused(v, o))
            add_member(root, o, words->at[i]);
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
