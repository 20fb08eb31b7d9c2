/* models/config.c -- config.json: parsing, accessors, and reading of structs by field table. */
#include "models/config.h"

#include <stdio.h>
#include <string.h>

#include <json-c/json_object.h>

#include "core/failure.h"
#include "core/io/text.h"

struct weft_config {
    weft__json_doc doc;
    weft__json root;
    weft__json inner; /* text_config; value NULL: none */
    char *text;
    weft__rope_lists rope;
    const weft__tensors *tensors;
    json_object *asked; /* weft__config_record_keys */
};

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status parse(weft_config *c, const char *text, const char *where)
{
    c->text = weft_strdup(text);
    if (c->text == NULL)
        return weft__out_of_memory(where, "the configuration");
    weft_status status = weft__json_parse(text, strlen(text), where, &c->doc);
    if (status != WEFT_OK)
        return status;
    c->root = weft__json_root(&c->doc);
    status = weft__json_find(&c->root, "text_config", &c->inner);
    if (status == WEFT_OK && c->inner.value)
        status = weft__json_as_object(&c->inner);
    if (status == WEFT_OK)
        status = weft__config_read_rope_lists(c, &c->rope);
    return status;
}

weft_status weft_config_parse(const char *text, const char *where, weft_config **out)
{
    *out = NULL;
    weft_config *c = weft_calloc(1, sizeof *c);
    if (c == NULL)
        return weft__out_of_memory(where, "the configuration");
    const weft_status status = parse(c, text, where);
    if (status != WEFT_OK) {
        weft_config_free(c);
        return status;
    }
    *out = c;
    return WEFT_OK;
}

weft_status weft_config_load(const char *path, weft_config **out)
{
    *out = NULL;
    char *text;
    size_t size;
    weft_status status = weft_file_read(path, 0, &text, &size);
    if (status != WEFT_OK)
        return status;
    if (strlen(text) != size)
        status = weft_fail(WEFT_INVALID, "%s: a 0 byte at %zu of %zu", path, strlen(text), size);
    else
        status = weft_config_parse(text, path, out);
    weft_free(text);
    return status;
}

weft_status weft__config_load_folder(const char *folder, weft_config **out)
{
    char *path = weft_format("%s/config.json", folder);
    *out = NULL;
    if (path == NULL)
        return weft__out_of_memory(folder, NULL);
    const weft_status status = weft_config_load(path, out);
    weft_free(path);
    return status;
}

void weft_config_free(weft_config *config)
{
    if (config == NULL)
        return;
    weft__json_free(&config->doc);
    weft_free(config->text);
    weft_free(config->rope.short_factor);
    weft_free(config->rope.long_factor);
    weft_free(config);
}

const char *weft_config_text(const weft_config *config)
{
    return config->text;
}

const char *weft_config_where(const weft_config *config)
{
    return config->doc.name;
}

const weft__rope_lists *weft__config_rope_lists(const weft_config *config)
{
    return &config->rope;
}

void weft__config_set_tensors(weft_config *config, const weft__tensors *tensors)
{
    config->tensors = tensors;
}

bool weft__config_has_tensors(const weft_config *config)
{
    return config->tensors != NULL;
}

bool weft__config_tensor(const weft_config *config, const char *path, weft_dims *out)
{
    weft_dims shape;
    return config->tensors &&
           config->tensors->shape(config->tensors->context, path, out ? out : &shape);
}

bool weft__config_taps_first(const weft_config *config, int64_t n_layers, const char *path)
{
    weft_dims shape = {0};
    bool found = false;
    for (int64_t i = 0; i < n_layers && !found; i++) {
        char whole[96];
        snprintf(whole, sizeof whole, "model.layers.%lld.%s.weight", (long long)i, path);
        found = weft__config_tensor(config, whole, &shape);
    }
    return found && shape.n == 3 && shape.at[2] == 1;
}

/* ---- looking up ----------------------------------------------------------------------------- */

json_object *weft__config_object(const weft_config *config)
{
    return config->inner.value ? config->inner.value : config->root.value;
}

void weft__config_record_keys(weft_config *config, json_object *keys)
{
    config->asked = keys;
}

weft__json weft__config_at_top(const weft_config *config, const char *key)
{
    weft__json out = {0};
    if (config->asked)
        json_object_object_add(config->asked, key, NULL);
    weft__json_find(&config->root, key, &out); /* cannot fail, since the root is an object */
    return out;
}

weft__json weft__config_at(const weft_config *config, const char *key)
{
    const weft__json top = weft__config_at_top(config, key);
    weft__json out = {0};
    if (config->inner.value)
        weft__json_find(&config->inner, key, &out);
    return out.value ? out : top;
}

bool weft__config_mentions(const weft_config *config, const char *key)
{
    if (config->asked)
        json_object_object_add(config->asked, key, NULL);
    return (config->inner.value && json_object_object_get_ex(config->inner.value, key, NULL)) ||
           json_object_object_get_ex(config->root.value, key, NULL);
}

bool weft__config_is_null(const weft_config *config, const char *key)
{
    return weft__config_mentions(config, key) && weft__config_at(config, key).value == NULL;
}

bool weft_config_has(const weft_config *config, const char *key)
{
    return weft__config_at(config, key).value != NULL;
}

bool weft__config_is_tied(const weft_config *config)
{
    const weft__json whole = weft__config_at_top(config, "tie_word_embeddings");
    bool tied = true;
    if (whole.value && weft__json_as_bool(&whole, &tied) != WEFT_OK)
        tied = true;
    tied = tied && weft_config_bool(config, "tie_word_embeddings", false);
    return weft_config_bool(config, "tie_embedding", tied); /* of LFM2 */
}

int64_t weft_config_int(const weft_config *config, const char *key, int64_t fallback)
{
    const weft__json at = weft__config_at(config, key);
    int64_t value = fallback;
    return at.value && weft__json_as_int(&at, &value) == WEFT_OK ? value : fallback;
}

double weft_config_double(const weft_config *config, const char *key, double fallback)
{
    const weft__json at = weft__config_at(config, key);
    double value = fallback;
    return at.value && weft__json_as_number(&at, &value) == WEFT_OK ? value : fallback;
}

bool weft_config_bool(const weft_config *config, const char *key, bool fallback)
{
    const weft__json at = weft__config_at(config, key);
    bool value = fallback;
    if (weft__config_is_null(config, key))
        return false;
    return at.value && weft__json_as_bool(&at, &value) == WEFT_OK ? value : fallback;
}

const char *weft_config_string(const weft_config *config, const char *key, const char *fallback)
{
    const weft__json at = weft__config_at(config, key);
    const char *value = fallback;
    return at.value && weft__json_as_string(&at, &value, NULL) == WEFT_OK ? value : fallback;
}

/* ---- structs -------------------------------------------------------------------------------- */

static void put_fallback(const weft_config *config, const weft_config_field *field, void *out)
{
    switch (field->type) {
    case WEFT_CONFIG_INT:
        *(int64_t *)out = (int64_t)field->fallback;
        break;
    case WEFT_CONFIG_DOUBLE:
        *(double *)out = field->fallback;
        break;
    case WEFT_CONFIG_BOOL:
        *(bool *)out = weft_config_bool(config, field->name, field->fallback != 0);
        break;
    case WEFT_CONFIG_STRING:
        *(const char **)out = field->text;
        break;
    }
}

static weft_status put_value(const weft_config_field *field, const weft__json *at, void *out)
{
    switch (field->type) {
    case WEFT_CONFIG_INT:
        return weft__json_as_int(at, out);
    case WEFT_CONFIG_DOUBLE:
        return weft__json_as_number(at, out);
    case WEFT_CONFIG_BOOL:
        return weft__json_as_bool(at, out);
    case WEFT_CONFIG_STRING:
        return weft__json_as_string(at, out, NULL);
    }
    return WEFT_INVALID;
}

static const char *type_name(weft_config_type type)
{
    static const char *const names[] = {"an integer", "a number", "true or false", "a string"};
    return names[type];
}

weft_status weft_config_read(const weft_config *config, const weft_config_field *fields, int n,
                             void *out)
{
    weft__text problems = {0};
    for (int i = 0; i < n; i++) {
        const weft_config_field *field = &fields[i];
        void *member = (char *)out + field->offset;
        const weft__json at = weft__config_at(config, field->name);
        if (at.value == NULL && field->required) {
            weft__text_format(&problems, "%s%s is missing", problems.n ? "; " : "", field->name);
        } else if (at.value == NULL) {
            put_fallback(config, field, member);
        } else if (put_value(field, &at, member) != WEFT_OK) {
            weft__text_format(&problems, "%s%s: expected %s, got %s", problems.n ? "; " : "",
                              field->name, type_name(field->type), weft__json_type_name(at.value));
        }
    }
    weft_status status = WEFT_OK;
    if (problems.failed)
        status = weft__out_of_memory(weft_config_where(config), "reading it");
    else if (problems.n)
        status = weft_fail(WEFT_INVALID, "%s: %s", weft_config_where(config), problems.at);
    weft_free(problems.at);
    return status;
}
