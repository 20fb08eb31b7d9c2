/* models/config_rope.c -- reads the rotary embedding from config.json, in either style: rope_theta
 * with rope_scaling, or rope_parameters, flat or by layer type. */
#include <math.h>
#include <string.h>

#include <json-c/json_object.h>

#include "models/config.h"

weft_status weft__config_rope_object(const weft_config *config, weft__json *out)
{
    *out = weft__config_at(config, "rope_parameters");
    if (out->value == NULL)
        *out = weft__config_at(config, "rope_scaling");
    if (out->value == NULL)
        return WEFT_OK;
    weft_status status = weft__json_as_object(out);
    weft__json full = {0}, sliding = {0};
    if (status == WEFT_OK)
        status = weft__json_find(out, "full_attention", &full);
    if (status == WEFT_OK)
        status = weft__json_find(out, "sliding_attention", &sliding);
    if (full.value || sliding.value)
        *out = full;
    return status == WEFT_OK && full.value ? weft__json_as_object(out) : status;
}

static weft_status read_list(const weft__json *object, const char *key, double **out, int64_t *n)
{
    weft__json list, element;
    size_t count = 0;
    weft_status status = weft__json_find(object, key, &list);
    if (status != WEFT_OK || list.value == NULL)
        return status;
    status = weft__json_length(&list, &count);
    if (status != WEFT_OK)
        return status;
    *out = weft_calloc(count ? count : 1, sizeof **out);
    if (*out == NULL)
        return weft__json_fail(&list, WEFT_MEMORY, "out of memory for %zu numbers", count);
    *n = (int64_t)count;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK)
            status = weft__json_as_number(&element, &(*out)[i]);
        if (status == WEFT_OK && !((*out)[i] > 0))
            status = weft__json_fail(&element, WEFT_INVALID, "expected a positive number, got %g",
                                     (*out)[i]);
    }
    return status;
}

weft_status weft__config_read_rope_lists(const weft_config *config, weft__rope_lists *out)
{
    weft__json object;
    weft_status status = weft__config_rope_object(config, &object);
    if (status != WEFT_OK || object.value == NULL)
        return status;
    status = read_list(&object, "short_factor", &out->short_factor, &out->n_short);
    if (status == WEFT_OK)
        status = read_list(&object, "long_factor", &out->long_factor, &out->n_long);
    return status;
}

static const struct {
    const char *name;
    weft_rope_kind kind;
} kinds[] = {
    {"default", WEFT_ROPE_DEFAULT}, {"linear", WEFT_ROPE_LINEAR},
    {"llama3", WEFT_ROPE_LLAMA3},   {"yarn", WEFT_ROPE_YARN},
    {"dynamic", WEFT_ROPE_DYNAMIC}, {"longrope", WEFT_ROPE_LONGROPE},
    {"su", WEFT_ROPE_LONGROPE},     {"proportional", WEFT_ROPE_PROPORTIONAL},
};

static weft_status read_kind(const weft__json *object, weft_rope_kind *out)
{
    const char *name = "default";
    weft_status status = weft__json_find_string(object, "type", &name);
    if (status == WEFT_OK)
        status = weft__json_find_string(object, "rope_type", &name);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *out = kinds[i].kind;
            return WEFT_OK;
        }
    }
    return weft__json_fail(object, WEFT_UNSUPPORTED,
                           "rope_type '%s' is unknown (known: default, linear, llama3, yarn, "
                           "dynamic, longrope, proportional)",
                           weft_printable(name));
}

/* How null and 0 are treated for a number of the rope object. */
typedef enum rope_rule {
    POSITIVE,         /* null and 0 are errors */
    POSITIVE_OR_NULL, /* null counts as absent */
    OFF_OR_POSITIVE   /* null and 0 count as absent */
} rope_rule;

static const struct {
    const char *key;
    size_t offset; /* in weft_rope_options */
    rope_rule rule;
} numbers[] = {
    {"rope_theta", offsetof(weft_rope_options, theta), POSITIVE_OR_NULL},
    {"factor", offsetof(weft_rope_options, factor), POSITIVE},
    {"partial_rotary_factor", offsetof(weft_rope_options, partial), POSITIVE_OR_NULL},
    {"low_freq_factor", offsetof(weft_rope_options, low_freq_factor), POSITIVE},
    {"high_freq_factor", offsetof(weft_rope_options, high_freq_factor), POSITIVE},
    {"beta_fast", offsetof(weft_rope_options, beta_fast), POSITIVE_OR_NULL},
    {"beta_slow", offsetof(weft_rope_options, beta_slow), POSITIVE_OR_NULL},
    {"attention_factor", offsetof(weft_rope_options, attention_factor), POSITIVE_OR_NULL},
    {"mscale", offsetof(weft_rope_options, mscale), OFF_OR_POSITIVE},
    {"mscale_all_dim", offsetof(weft_rope_options, mscale_all_dim), OFF_OR_POSITIVE},
};

/* Finds a number. A key with the value null is an error if `rule` says so; otherwise *out->value is
 * NULL. */
static weft_status find_number(const weft__json *object, const char *key, rope_rule rule,
                               weft__json *out)
{
    const weft_status status = weft__json_find(object, key, out);
    if (status != WEFT_OK || out->value || rule != POSITIVE ||
        !json_object_object_get_ex(object->value, key, NULL))
        return status;
    return weft__json_fail(object, WEFT_INVALID, "%s: expected a positive number, got null", key);
}

static weft_status read_number(const weft__json *object, size_t i, weft_rope_options *o)
{
    weft__json at;
    double x;
    weft_status status = find_number(object, numbers[i].key, numbers[i].rule, &at);
    if (status != WEFT_OK || at.value == NULL)
        return status;
    status = weft__json_as_number(&at, &x);
    if (status == WEFT_OK &&
        !(isfinite(x) && (x > 0 || (x == 0 && numbers[i].rule == OFF_OR_POSITIVE))))
        status = weft__json_fail(&at, WEFT_INVALID, "expected a positive number, got %g", x);
    if (status == WEFT_OK)
        *(double *)((char *)o + numbers[i].offset) = x;
    return status;
}

/* The length next to the object is taken instead of the object's, as transformers does. */
static weft_status read_original_length(const weft__json *object, weft_rope_options *o)
{
    const int64_t outer = o->original_max_position;
    weft__json at;
    weft_status status = find_number(object, "original_max_position_embeddings", POSITIVE, &at);
    if (status != WEFT_OK || at.value == NULL)
        return status;
    status = weft__json_as_int(&at, &o->original_max_position);
    if (status == WEFT_OK && o->original_max_position < 1)
        status = weft__json_fail(&at, WEFT_INVALID, "expected at least 1, got %lld",
                                 (long long)o->original_max_position);
    if (outer > 0)
        o->original_max_position = outer;
    return status;
}

/* A dynamic rotation with `alpha` has a larger base, whatever the length. */
static weft_status read_alpha(const weft__json *object, weft_rope_options *o)
{
    weft__json at;
    double alpha = 0;
    weft_status status = find_number(object, "alpha", POSITIVE_OR_NULL, &at);
    if (status != WEFT_OK || at.value == NULL)
        return status;
    status = weft__json_as_number(&at, &alpha);
    if (status == WEFT_OK && !(alpha > 0 && isfinite(alpha) && o->head_dim > 2))
        status = weft__json_fail(&at, WEFT_INVALID, "expected a positive number, got %g", alpha);
    if (status != WEFT_OK || o->kind != WEFT_ROPE_DYNAMIC)
        return status;
    o->kind = WEFT_ROPE_DEFAULT;
    o->theta *= pow(alpha, (double)o->head_dim / (double)(o->head_dim - 2));
    return WEFT_OK;
}

/* `o->kind` must be set. */
static weft_status read_numbers(const weft__json *object, weft_rope_options *o)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == WEFT_OK; i++)
        status = read_number(object, i, o);
    if (status == WEFT_OK)
        status = read_alpha(object, o);
    const bool scaled = o->kind == WEFT_ROPE_LINEAR || o->kind == WEFT_ROPE_LLAMA3 ||
                        o->kind == WEFT_ROPE_YARN || o->kind == WEFT_ROPE_DYNAMIC;
    if (status == WEFT_OK && scaled && o->factor == 0)
        status = weft__json_fail(object, WEFT_INVALID, "factor is missing");
    bool truncate = !json_object_object_get_ex(object->value, "truncate", NULL); /* null: false */
    if (status == WEFT_OK)
        status = weft__json_find_bool(object, "truncate", &truncate);
    if (status == WEFT_OK)
        status = read_original_length(object, o);
    if (o->kind == WEFT_ROPE_LLAMA3 && o->original_max_position == 0)
        o->original_max_position = o->max_position; /* others' default in weft_rope_options */
    if (status == WEFT_OK && o->kind == WEFT_ROPE_LLAMA3 && o->low_freq_factor > 0 &&
        o->high_freq_factor > 0 && o->high_freq_factor <= o->low_freq_factor)
        status = weft__json_fail(object, WEFT_INVALID,
                                 "high_freq_factor: expected more than low_freq_factor %g, got %g",
                                 o->low_freq_factor, o->high_freq_factor);
    o->no_truncate = !truncate;
    return status;
}

static weft_status check(const weft_config *config, const weft_rope_options *o)
{
    const char *where = weft_config_where(config);
    const weft__rope_lists *lists = weft__config_rope_lists(config);
    const int64_t half = (int64_t)((double)o->head_dim * (o->partial > 0 ? o->partial : 1)) / 2;
    if (!(o->theta > 0) || o->factor < 0 || o->partial < 0 || o->partial > 1 ||
        o->original_max_position < 0 || o->max_position < 0)
        return weft_fail(WEFT_INVALID,
                         "%s: rope: expected a positive theta, factor and lengths, and a partial "
                         "factor of at most 1; got theta %g, factor %g, partial %g, original "
                         "length %lld, length %lld",
                         where, o->theta, o->factor, o->partial,
                         (long long)o->original_max_position, (long long)o->max_position);
    if (o->kind == WEFT_ROPE_LONGROPE && (lists->n_short != half || lists->n_long != half))
        return weft_fail(WEFT_INVALID,
                         "%s: rope: expected short_factor and long_factor of %lld numbers, got "
                         "%lld and %lld",
                         where, (long long)half, (long long)lists->n_short,
                         (long long)lists->n_long);
    return WEFT_OK;
}

/* Keys next to the object, in the older style. */
#define OUTER(kind, key, member)                                                                   \
    {                                                                                              \
        key, WEFT_CONFIG_##kind, offsetof(weft_rope_options, member), false, 0, NULL               \
    }
static const weft_config_field outer[] = {
    OUTER(DOUBLE, "rope_theta", theta),
    OUTER(DOUBLE, "partial_rotary_factor", partial),
    OUTER(INT, "original_max_position_embeddings", original_max_position),
    OUTER(INT, "max_position_embeddings", max_position),
};
#undef OUTER

/* Such a key must be a positive number; null counts as absent. */
static weft_status check_outer(const weft_config *config)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof outer / sizeof *outer && status == WEFT_OK; i++) {
        const weft__json at = weft__config_at(config, outer[i].name);
        double x = 1;
        if (at.value)
            status = weft__json_as_number(&at, &x);
        if (status == WEFT_OK && !(isfinite(x) && x > 0))
            status = weft__json_fail(&at, WEFT_INVALID, "expected a positive number, got %g", x);
    }
    return status;
}

/* Reads `object` (value NULL: none) and the keys next to it. */
static weft_status read_rope(const weft_config *config, const weft__json *object, int64_t head_dim,
                             double theta, weft_rope_options *out)
{
    *out = (weft_rope_options){
        .head_dim = head_dim,
        .short_factor = weft__config_rope_lists(config)->short_factor,
        .long_factor = weft__config_rope_lists(config)->long_factor,
    };
    weft_status status = weft_config_read(config, outer, sizeof outer / sizeof *outer, out);
    if (status == WEFT_OK)
        status = check_outer(config);
    if (status == WEFT_OK && !weft_config_has(config, "rope_theta"))
        out->theta = theta;
    const int64_t rotated = weft_config_int(config, "rope_dimension_count", 0);
    if (status == WEFT_OK && rotated > 0)
        out->partial = (double)rotated / (double)head_dim;
    if (status == WEFT_OK && object->value && weft_config_has(config, "rope_parameters") &&
        json_object_object_length(object->value) == 0)
        return weft__json_fail(object, WEFT_INVALID, "expected rope_theta or rope_type, got {}");
    if (status == WEFT_OK && object->value) {
        if (object->value != weft__config_at(config, "rope_parameters").value &&
            object->value != weft__config_at(config, "rope_scaling").value)
            out->original_max_position = 0; /* an object by kind of layer has its own */
        status = read_kind(object, &out->kind);
        if (out->kind == WEFT_ROPE_YARN && out->long_factor)
            out->kind = WEFT_ROPE_LONGROPE; /* what older files of Phi-3 call yarn */
        if (status == WEFT_OK)
            status = read_numbers(object, out);
    }
    return status == WEFT_OK ? check(config, out) : status;
}

weft_status weft_config_rope(const weft_config *config, int64_t head_dim, double theta,
                             weft_rope_options *out)
{
    weft__json object;
    const weft_status status = weft__config_rope_object(config, &object);
    return status == WEFT_OK ? read_rope(config, &object, head_dim, theta, out) : status;
}

/* rope_parameters.sliding_attention; value NULL: none. */
static weft_status sliding_object(const weft_config *config, weft__json *out)
{
    const weft__json all = weft__config_at(config, "rope_parameters");
    *out = (weft__json){0};
    weft_status status = all.value ? weft__json_find(&all, "sliding_attention", out) : WEFT_OK;
    if (status == WEFT_OK && out->value)
        status = weft__json_as_object(out);
    return status;
}

weft_status weft__config_sliding_rope(const weft_config *config, int64_t head_dim, double theta,
                                      double sliding_theta, weft_rope_options *out)
{
    weft__json object;
    const weft_status status = sliding_object(config, &object);
    if (status != WEFT_OK)
        return status;
    if (object.value)
        return read_rope(config, &object, head_dim, sliding_theta > 0 ? sliding_theta : theta, out);
    if (sliding_theta <= 0)
        return weft_config_rope(config, head_dim, theta, out);
    *out = (weft_rope_options){
        .head_dim = head_dim,
        .theta = weft_config_double(config, "rope_local_base_freq", sliding_theta),
    };
    return check(config, out);
}
