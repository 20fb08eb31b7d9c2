/* cli/settings.c -- reads a settings file in JSON, with the line number of each setting. */
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "core/io/json_parse.h"
#include "weft/memory.h"

/* ---- settings ------------------------------------------------------------------------------- */

static weft_status no_memory(void)
{
    return weft_fail(WEFT_MEMORY, "out of memory for the settings of a file");
}

const char *cli_setting_kind_name(cli_setting_kind kind)
{
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "a list",        "an object"};
    return names[kind];
}

weft_status cli_settings_set(cli_setting_value *value, cli_setting_kind kind, const char *text)
{
    value->kind = kind;
    value->text = text ? strdup(text) : NULL;
    return text && value->text == NULL ? no_memory() : WEFT_OK;
}

weft_status cli_settings_add(cli_settings *s, const char *file, const char *name, size_t line,
                             cli_setting_kind kind)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->at[i].name, name) == 0)
            return weft_fail(WEFT_INVALID, "%s:%zu: %s is given twice, before in line %zu",
                             weft_printable(file), line, weft_printable(name), s->at[i].line);
    }
    cli_setting *more = realloc(s->at, (s->n + 1) * sizeof *more);
    if (more == NULL)
        return no_memory();
    s->at = more;
    s->at[s->n] = (cli_setting){.name = strdup(name), .line = line, .value = {.kind = kind}};
    return s->at[s->n++].name ? WEFT_OK : no_memory();
}

weft_status cli_settings_add_item(cli_setting *setting, cli_setting_kind kind, const char *text,
                                  bool plain)
{
    cli_setting_value *more = realloc(setting->items, (setting->n_items + 1) * sizeof *more);
    if (more == NULL)
        return no_memory();
    setting->items = more;
    cli_setting_value *item = &more[setting->n_items++];
    *item = (cli_setting_value){.plain = plain};
    return cli_settings_set(item, kind, text);
}

void cli_settings_free(cli_settings *s)
{
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->at[i].n_items; k++)
            free(s->at[i].items[k].text);
        free(s->at[i].items);
        free(s->at[i].value.text);
        free(s->at[i].name);
    }
    free(s->at);
    *s = (cli_settings){0};
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static cli_setting_kind kind_of(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return CLI_SETTING_NULL;
    case json_type_boolean:
        return CLI_SETTING_BOOL;
    case json_type_double:
    case json_type_int:
        return CLI_SETTING_NUMBER;
    case json_type_string:
        return CLI_SETTING_TEXT;
    case json_type_array:
        return CLI_SETTING_LIST;
    case json_type_object:
        return CLI_SETTING_OBJECT;
    }
    return CLI_SETTING_NULL;
}

/* The text of a scalar; NULL for other values and for a string that contains a NUL. */
static const char *text_of(json_object *value)
{
    const cli_setting_kind kind = kind_of(value);
    if (kind == CLI_SETTING_TEXT) {
        const char *text = json_object_get_string(value);
        return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
    }
    return kind == CLI_SETTING_BOOL || kind == CLI_SETTING_NUMBER
               ? json_object_to_json_string(value)
               : NULL;
}

static weft_status add_json(const char *file, const char *name, size_t line, json_object *value,
                            cli_settings *out)
{
    const cli_setting_kind kind = kind_of(value);
    weft_status status = cli_settings_add(out, file, name, line, kind);
    if (status != WEFT_OK)
        return status;
    cli_setting *setting = &out->at[out->n - 1];
    if (kind == CLI_SETTING_TEXT && text_of(value) == NULL)
        return weft_fail(WEFT_INVALID, "%s:%zu: %s: expected text without a NUL",
                         weft_printable(file), line, weft_printable(name));
    status = cli_settings_set(&setting->value, kind, text_of(value));
    for (size_t i = 0;
         kind == CLI_SETTING_LIST && status == WEFT_OK && i < json_object_array_length(value);
         i++) {
        json_object *item = json_object_array_get_idx(value, i);
        status = cli_settings_add_item(setting, kind_of(item), text_of(item), false);
    }
    return status;
}

/* The position after the closing quote of the string that begins at `at`. */
static const char *end_of_string(const char *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Adds the members of an object whose text is valid. Scans the text itself, since json-c reports
 * neither line numbers nor duplicate names. */
static weft_status add_members(const char *text, const char *file, json_object *root,
                               cli_settings *out)
{
    size_t line = 1;
    int depth = 0;
    bool is_name = false;
    weft_status status = WEFT_OK;
    for (const char *at = text; status == WEFT_OK && *at != '\0';) {
        const char c = *at;
        const char *end = c == '"' ? end_of_string(at) : at + 1;
        if (c == '"' && depth == 1 && is_name) {
            json_object *name = NULL, *value = NULL;
            status = weft__json_parse_value(at, (size_t)(end - at), file, &name);
            if (status == WEFT_OK) {
                json_object_object_get_ex(root, json_object_get_string(name), &value);
                status = add_json(file, json_object_get_string(name), line, value, out);
            }
            json_object_put(name);
        }
        line += c == '\n';
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth == 1 && (c == '{' || c == ',' || c == ':'))
            is_name = c != ':';
        at = end;
    }
    return status;
}

static weft_status parse_json(const char *text, size_t size, const char *file, cli_settings *out)
{
    json_object *root = NULL;
    weft_status status = weft__json_parse_value(text, size, file, &root);
    if (status == WEFT_OK && !json_object_is_type(root, json_type_object))
        status =
            weft_fail(WEFT_INVALID, "%s: expected a JSON object of options", weft_printable(file));
    if (status == WEFT_OK)
        status = add_members(text, file, root, out);
    json_object_put(root);
    return status;
}

#ifndef WEFT_HAVE_YAML
weft_status cli_settings_parse_yaml(const char *text, size_t size, const char *name,
                                    cli_settings *out)
{
    (void)text, (void)size, (void)out;
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: reading YAML needs libyaml, which this build does not have; JSON can be "
                     "read",
                     weft_printable(name));
}
#endif

weft_status cli_settings_parse(const char *text, size_t size, const char *name, cli_settings *out)
{
    *out = (cli_settings){0};
    if (cli_ends_with(name, ".yaml") || cli_ends_with(name, ".yml"))
        return cli_settings_parse_yaml(text, size, name, out);
    char *whole = malloc(size + 1); /* NUL-terminated for add_members */
    if (whole == NULL)
        return no_memory();
    memcpy(whole, text, size);
    whole[size] = '\0';
    const weft_status status = parse_json(whole, size, name, out);
    free(whole);
    return status;
}
