/* models/config_rope.c -- the rotary embedding that config.json describes, in either of its styles:
 * rope_theta with rope_scaling, or rope_parameters, flat or by layer type. */
#include <string.h>

#include "models/config.h"

weft_status weft__config_rope_object(const weft_config *config, weft__json *out)
{
    *out = weft__config_at(config, "rope_parameters");
    if (out->value == NULL)
        *out = weft__config_at(config, "rope_scaling");
    if (out->value == NULL)
        return WEFT_OK;
    weft_status status = weft__json_as_object(out);
    weft__json full = {0};
    if (status == WEFT_OK)
        status = weft__json_find(out, "full_attention", &full);
    if (status == WEFT_OK && full.value) {
        *out = full;
        status = weft__json_as_object(out);
    }
    return status;
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
                           name);
}

static weft_status read_numbers(const weft__json *object, weft_rope_options *o)
{
    const struct {
        const char *key;
        double *out;
    } numbers[] = {
        {"rope_theta", &o->theta},
        {"factor", &o->factor},
        {"partial_rotary_factor", &o->partial},
        {"low_freq_factor", &o->low_freq_factor},
        {"high_freq_factor", &o->high_freq_factor},
        {"beta_fast", &o->beta_fast},
        {"beta_slow", &o->beta_slow},
        {"attention_factor", &o->attention_factor},
        {"mscale", &o->mscale},
        {"mscale_all_dim", &o->mscale_all_dim},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == WEFT_OK; i++)
        status = weft__json_find_number(object, numbers[i].key, numbers[i].out);
    bool truncate = true;
    if (status == WEFT_OK)
        status = weft__json_find_bool(object, "truncate", &truncate);
    if (status == WEFT_OK)
        status = weft__json_find_int(object, "original_max_position_embeddings",
                                     &o->original_max_position);
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

/* The keys that stand beside the object, in the older style. */
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

/* What `object` (value NULL: nothing) and the keys beside it say. */
static weft_status read_rope(const weft_config *config, const weft__json *object, int64_t head_dim,
                             double theta, weft_rope_options *out)
{
    *out = (weft_rope_options){
        .head_dim = head_dim,
        .short_factor = weft__config_rope_lists(config)->short_factor,
        .long_factor = weft__config_rope_lists(config)->long_factor,
    };
    weft_status status = weft_config_read(config, outer, sizeof outer / sizeof *outer, out);
    if (status == WEFT_OK && !weft_config_has(config, "rope_theta"))
        out->theta = theta;
    if (status == WEFT_OK && object->value) {
        status = read_kind(object, &out->kind);
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

/* rope_parameters.sliding_attention; value NULL: there is none. */
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
