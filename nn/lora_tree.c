/* nn/lora_tree.c -- injects adapters into a tree, merges them, and removes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "nn/lora.h"
#include "nn/tokens.h"

static const char *const default_targets[] = {"q_proj", "v_proj"};
static const char *const default_exclude[] = {
    "lm_head", "score", "mlp.gate", "mlp.router", "mlp.shared_expert_gate", "router.proj"};

/* ---- selection ------------------------------------------------------------------------------- */

static bool is_suffix(const char *path, const char *target)
{
    const size_t n = strlen(path), m = strlen(target);
    if (n < m || strcmp(path + n - m, target) != 0)
        return false;
    return n == m || path[n - m - 1] == '.';
}

/* The first numeric component of the path; -1: none. */
static int layer_of(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '.')) {
        at += *at == '.';
        char *end;
        const long number = strtol(at, &end, 10);
        if (end > at && (*end == '.' || *end == '\0') && *at >= '0' && *at <= '9')
            return (int)number;
    }
    return -1;
}

/* A linear to adapt: its slot, the adapter's parameters, and the adapter once it is created. */
typedef struct chosen {
    weft_module **field;
    weft__lora_spec spec;
    weft_nn_lora_linear *adapter;
} chosen;

/* The options with defaults, and the selected modules. */
typedef struct injection {
    weft_nn_lora_options o;
    bool all_linear;
    bool *fits; /* per target of the options: whether it matched a module */
    bool *whole_fits;
    bool *pattern_fits;
    chosen *chosen;
    int n;
} injection;

static bool is_chosen_layer(const weft_nn_lora_options *o, const char *path)
{
    if (o->layers == NULL)
        return true;
    const int layer = layer_of(path);
    for (int i = 0; i < o->n_layers; i++) {
        if (o->layers[i] == layer)
            return true;
    }
    return false;
}

/* Whether the name matches the module at `path`; experts also have two other names. */
static bool is_named(const char *path, const char *name)
{
    char other[WEFT_NN_PATH];
    return is_suffix(path, name) ||
           (weft__nn_stack_name(path, false, other, sizeof other) && is_suffix(other, name)) ||
           (weft__nn_stack_name(path, true, other, sizeof other) && is_suffix(other, name));
}

static bool is_target(injection *in, const char *path)
{
    const weft_nn_lora_options *o = &in->o;
    if (!is_chosen_layer(o, path))
        return false;
    if (in->all_linear) {
        for (int i = 0; i < o->n_exclude; i++) {
            if (is_suffix(path, o->exclude[i]))
                return false;
        }
        in->fits[0] = true;
        return true;
    }
    bool target = false;
    for (int i = 0; i < o->n_targets; i++) {
        if (is_named(path, o->targets[i]))
            target = in->fits[i] = true;
    }
    return target;
}

static weft__lora_spec spec_of(injection *in, const char *path)
{
    const weft_nn_lora_options *o = &in->o;
    int64_t rank = 0;
    double alpha = 0;
    for (int i = 0; i < o->n_patterns; i++) {
        const weft_nn_lora_pattern *p = &o->patterns[i];
        const bool fits = is_named(path, p->path);
        in->pattern_fits[i] = in->pattern_fits[i] || fits;
        rank = fits && rank == 0 ? p->rank : rank;
        alpha = fits && alpha == 0 ? p->alpha : alpha;
    }
    rank = rank == 0 ? o->rank : rank;
    alpha = alpha == 0 ? o->alpha : alpha;
    return (weft__lora_spec){
        .rank = rank,
        .scale = alpha / (o->rslora ? sqrt((double)rank) : (double)rank),
        .dropout = o->dropout,
        .dtype = o->dtype,
        .dora = o->dora,
        .pissa = o->pissa,
    };
}

static weft_status choose(void *context, const char *path, weft_module **field)
{
    injection *in = context;
    if (weft__is_lora(*field))
        return weft_fail(WEFT_INVALID, "lora: %s has an adapter already", path);
    const weft_module_type *type = (*field)->type;
    const bool embedding = type == &weft__nn_embedding_type && !in->all_linear;
    if (type != &weft_nn_linear_type && type != &weft__nn_stack_type && !embedding)
        return WEFT_OK;
    if ((*field)->parent == NULL || (in->all_linear && (*field)->unadapted) || !is_target(in, path))
        return WEFT_OK;
    if (!weft__list_more(in->chosen, in->n))
        return weft__out_of_memory("lora", "the list of targets");
    in->chosen[in->n++] = (chosen){.field = field, .spec = spec_of(in, path)};
    return WEFT_OK;
}

static weft_status check_fits(const injection *in)
{
    for (int i = 0; i < in->o.n_targets; i++) {
        if (!in->fits[i])
            return weft_fail(WEFT_INVALID,
                             "lora: the target '%s' fits no linear module or embedding",
                             weft_printable(in->o.targets[i]));
    }
    for (int i = 0; i < in->o.n_patterns; i++) {
        if (!in->pattern_fits[i])
            return weft_fail(WEFT_INVALID, "lora: the %s pattern '%s' fits no adapted module",
                             in->o.patterns[i].rank > 0 ? "rank" : "alpha",
                             weft_printable(in->o.patterns[i].path));
    }
    return WEFT_OK;
}

/* ---- modules trained in full ----------------------------------------------------------------- */

static bool is_whole(injection *in, const char *path, const weft_module *m)
{
    bool fits = m->whole;
    for (int i = 0; i < in->o.n_whole; i++) {
        if (is_suffix(path, in->o.whole[i]))
            fits = in->whole_fits[i] = true;
    }
    return fits;
}

static weft_status check_parameter(void *context, const weft_nn_item *item)
{
    const char *path = context;
    if (weft_encoding_of(*item->slot->address) == NULL)
        return WEFT_OK;
    return weft_fail(WEFT_UNSUPPORTED, "lora: %s is quantized, so it cannot be trained whole",
                     path);
}

static weft_status check_whole(void *context, const char *path, weft_module **field)
{
    injection *in = context;
    char text[WEFT_NN_PATH];
    if ((*field)->parent == NULL || !is_whole(in, path, *field))
        return WEFT_OK;
    for (int i = 0; i < in->n; i++) {
        if (*in->chosen[i].field == *field)
            return weft_fail(WEFT_INVALID, "lora: %s is both a target and trained whole", path);
    }
    snprintf(text, sizeof text, "%s", path);
    return weft_nn_visit(*field, check_parameter, text);
}

static weft_status check_wholes(weft_module *m, injection *in)
{
    in->whole_fits = weft_calloc((size_t)in->o.n_whole + 1, sizeof *in->whole_fits);
    if (in->whole_fits == NULL)
        return weft__out_of_memory("lora", NULL);
    const weft_status status = weft_nn_visit_modules(m, check_whole, in);
    for (int i = 0; status == WEFT_OK && i < in->o.n_whole; i++) {
        if (!in->whole_fits[i])
            return weft_fail(WEFT_INVALID, "lora: there is no module '%s' to train whole",
                             weft_printable(in->o.whole[i]));
    }
    return status;
}

typedef struct thawing {
    weft_module *tree;
    injection *in;
} thawing;

static weft_status thaw(void *context, const char *path, weft_module **field)
{
    const thawing *t = context;
    if ((*field)->parent == NULL || !is_whole(t->in, path, *field))
        return WEFT_OK;
    weft__nn_untie(*field);
    for (int i = 0; i < (*field)->n_slots; i++)
        weft__nn_untie_from(t->tree, (*field)->slots[i].address);
    weft_nn_unfreeze(*field);
    return WEFT_OK;
}

/* ---- injection ------------------------------------------------------------------------------- */

static void fill_defaults(injection *in, const weft_nn_lora_options *options)
{
    weft_nn_lora_options *o = &in->o;
    if (options)
        *o = *options;
    if (o->rank == 0)
        o->rank = 8;
    if (o->alpha == 0)
        o->alpha = 16;
    if (o->targets == NULL) {
        o->targets = default_targets;
        o->n_targets = 2;
    }
    if (o->exclude == NULL) {
        o->exclude = default_exclude;
        o->n_exclude = sizeof default_exclude / sizeof *default_exclude;
    }
    in->all_linear = o->n_targets == 1 && strcmp(o->targets[0], "all-linear") == 0;
}

static weft_status make_adapters(injection *in)
{
    for (int i = 0; i < in->n; i++) {
        chosen *c = &in->chosen[i];
        const weft_status status = weft__lora_new(*c->field, &c->spec, &c->adapter);
        if (status == WEFT_OK)
            continue;
        while (i-- > 0)
            weft_nn_free(&in->chosen[i].adapter->module);
        return status;
    }
    return WEFT_OK;
}

/* Attaches the adapters. This cannot fail, so the tree is never adapted partially. */
static void attach_adapters(const injection *in)
{
    for (int i = 0; i < in->n; i++) {
        const chosen *c = &in->chosen[i];
        weft_module *base = *c->field, *parent = base->parent;
        const char *name = base->name;
        weft__lora_attach(c->adapter, base);
        weft__nn_put_child(parent, name, c->field, &c->adapter->module);
    }
}

/* The adapter of that name in the same parent as `m`; NULL: none, or with another rank or scale. */
static weft_nn_lora_linear *sibling_of(const injection *in, const weft_nn_lora_linear *m,
                                       const char *name)
{
    for (int i = 0; i < in->n; i++) {
        weft_nn_lora_linear *other = in->chosen[i].adapter;
        if (other->module.parent == m->module.parent && strcmp(other->module.name, name) == 0)
            return weft__lora_rank(other) == weft__lora_rank(m) && other->scale == m->scale ? other
                                                                                            : NULL;
    }
    return NULL;
}

static weft_status join_stacks(const injection *in)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < in->n; i++) {
        weft_nn_lora_linear *m = in->chosen[i].adapter, *gate = NULL;
        if (m->module.type == &weft_nn_lora_stack_type && strcmp(m->module.name, "up_proj") == 0)
            gate = sibling_of(in, m, "gate_proj");
        if (gate)
            status = weft_nn_tie(&m->module, "lora_A", &gate->module, "lora_A");
    }
    return status;
}

weft_status weft_nn_lora_inject(weft_module *m, const weft_nn_lora_options *options)
{
    return weft__lora_inject(m, options, true);
}

weft_status weft__lora_inject(weft_module *m, const weft_nn_lora_options *options, bool joined)
{
    injection in = {0};
    fill_defaults(&in, options);
    if (in.o.n_targets < 1 || in.o.rank < 1)
        return weft_fail(WEFT_INVALID,
                         "lora: expected targets and a rank of at least 1, got %d "
                         "targets and rank %lld",
                         in.o.n_targets, (long long)in.o.rank);
    in.fits = weft_calloc((size_t)in.o.n_targets, sizeof *in.fits);
    in.pattern_fits = weft_calloc((size_t)in.o.n_patterns + 1, sizeof *in.pattern_fits);
    weft_status status = in.fits && in.pattern_fits ? weft_nn_visit_modules(m, choose, &in)
                                                    : weft__out_of_memory("lora", NULL);
    if (status == WEFT_OK)
        status = check_fits(&in);
    if (status == WEFT_OK)
        status = check_wholes(m, &in);
    if (status == WEFT_OK)
        status = make_adapters(&in);
    if (status == WEFT_OK) {
        weft_nn_freeze(m);
        (void)weft_nn_visit_modules(
            m, thaw, &(thawing){m, &in}); /* cannot fail: the same visit succeeded above */
        attach_adapters(&in);
    }
    if (status == WEFT_OK && joined)
        status = join_stacks(&in); /* cannot fail, since both have the slot */
    weft_free(in.fits);
    weft_free(in.whole_fits);
    weft_free(in.pattern_fits);
    weft_free(in.chosen);
    return status;
}

/* ---- counting and removal -------------------------------------------------------------------- */

static weft_status count(void *context, const char *path, weft_module **field)
{
    (void)path;
    *(int *)context += weft__is_lora(*field) || weft__is_tokens(*field);
    return WEFT_OK;
}

int weft_nn_lora_count(weft_module *m)
{
    int n = 0;
    (void)weft_nn_visit_modules(m, count, &n); /* the visit ends early only if a path is too long */
    return n;
}

static weft_status take_out(void *context, const char *path, weft_module **field)
{
    (void)context;
    (void)path;
    if (weft__is_tokens(*field) && (*field)->parent) {
        weft_nn_tokens *tokens = (weft_nn_tokens *)*field;
        *field = tokens->base;
        tokens->base = NULL;
        weft_nn_free(&tokens->module);
        return WEFT_OK;
    }
    if (!weft__is_lora(*field) || (*field)->parent == NULL)
        return WEFT_OK;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    *field = m->base;
    m->base = NULL;
    weft_nn_free(&m->module);
    return WEFT_OK;
}

void weft_nn_lora_remove(weft_module *m)
{
    (void)weft_nn_visit_modules(m, take_out,
                                NULL); /* the visit ends early only if a path is too long */
}
