/* nn/lora_tree.c -- adapters in a tree: putting them in, merging them, taking them out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "nn/lora.h"

static const char *const default_targets[] = {"q_proj", "v_proj"};
static const char *const default_exclude[] = {"lm_head"};

/* ---- choosing ------------------------------------------------------------------------------- */

static bool is_suffix(const char *path, const char *target)
{
    const size_t n = strlen(path), m = strlen(target);
    if (n < m || strcmp(path + n - m, target) != 0)
        return false;
    return n == m || path[n - m - 1] == '.';
}

/* The first part of the path that is a number; -1: none. */
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

/* A linear to adapt: where it is, what its adapter is like, and the adapter, once it is made. */
typedef struct chosen {
    weft_module **field;
    weft__lora_spec spec;
    weft_nn_lora_linear *adapter;
} chosen;

/* The options with defaults filled in, and what was found with them. */
typedef struct injection {
    weft_nn_lora_options o;
    bool all_linear;
    bool *fits;   /* a target of the options fitted a linear */
    bool experts; /* one fitted a stack of matrices */
    chosen *chosen;
    int n, capacity;
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
        if (is_suffix(path, o->targets[i]))
            target = in->fits[i] = true;
    }
    return target;
}

/* Whether a target names a module whose weight is one matrix for each of many experts. */
static bool is_targeted_stack(const injection *in, const char *path, weft_module *m)
{
    const weft_slot *slot = weft__nn_slot(m, "weight");
    if (slot == NULL || *slot->address == NULL || weft_ndim(*slot->address) != 3)
        return false;
    for (int i = 0; i < in->o.n_targets; i++) {
        if (is_suffix(path, in->o.targets[i]))
            return true;
    }
    return false;
}

static weft__lora_spec spec_of(const weft_nn_lora_options *o, const char *path)
{
    int64_t rank = 0;
    double alpha = 0;
    for (int i = 0; i < o->n_patterns; i++) {
        const weft_nn_lora_pattern *p = &o->patterns[i];
        const bool fits = (rank == 0 || alpha == 0) && is_suffix(path, p->path);
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
    if ((*field)->type == &weft_nn_lora_linear_type)
        return weft_fail(WEFT_INVALID, "lora: %s has an adapter already", path);
    if ((*field)->type != &weft_nn_linear_type) {
        in->experts = in->experts || is_targeted_stack(in, path, *field);
        return WEFT_OK;
    }
    if ((*field)->parent == NULL || !is_target(in, path))
        return WEFT_OK;
    if (in->n == in->capacity) {
        const int capacity = 2 * in->capacity + 32;
        chosen *moved = weft_realloc(in->chosen, (size_t)capacity * sizeof *moved);
        if (moved == NULL)
            return weft__out_of_memory("lora", "the list of targets");
        in->chosen = moved;
        in->capacity = capacity;
    }
    in->chosen[in->n++] = (chosen){.field = field, .spec = spec_of(&in->o, path)};
    return WEFT_OK;
}

static weft_status check_fits(const injection *in)
{
    for (int i = 0; i < in->o.n_targets; i++) {
        if (!in->fits[i])
            return weft_fail(WEFT_INVALID, "lora: the target '%s' fits no linear module%s",
                             weft_printable(in->o.targets[i]),
                             in->experts ? " (experts of a mixture cannot have adapters)" : "");
    }
    return WEFT_OK;
}

/* ---- putting in ----------------------------------------------------------------------------- */

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
        o->n_exclude = 1;
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

/* Nothing here can fail, so the tree is never half adapted. */
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

weft_status weft_nn_lora_inject(weft_module *m, const weft_nn_lora_options *options)
{
    injection in = {0};
    fill_defaults(&in, options);
    if (in.o.n_targets < 1 || in.o.rank < 1)
        return weft_fail(WEFT_INVALID,
                         "lora: expected targets and a rank of at least 1, got %d "
                         "targets and rank %lld",
                         in.o.n_targets, (long long)in.o.rank);
    in.fits = weft_calloc((size_t)in.o.n_targets, sizeof *in.fits);
    weft_status status =
        in.fits ? weft_nn_visit_modules(m, choose, &in) : weft__out_of_memory("lora", NULL);
    if (status == WEFT_OK)
        status = check_fits(&in);
    if (status == WEFT_OK)
        status = make_adapters(&in);
    if (status == WEFT_OK) {
        weft_nn_freeze(m);
        attach_adapters(&in);
    }
    weft_free(in.fits);
    weft_free(in.chosen);
    return status;
}

/* ---- merging -------------------------------------------------------------------------------- */

static weft_status count(void *context, const char *path, weft_module **field)
{
    (void)path;
    *(int *)context += (*field)->type == &weft_nn_lora_linear_type;
    return WEFT_OK;
}

int weft_nn_lora_count(weft_module *m)
{
    int n = 0;
    weft_nn_visit_modules(m, count, &n);
    return n;
}

/* The rows' factors as a column. They are kept evaluated, since the merged weight no longer has
 * them. */
static weft_status find_factor(weft_nn_lora_linear *m, bool merging, weft_array **out)
{
    weft_status status = WEFT_OK;
    *out = NULL;
    if (m->lora_magnitude_vector == NULL)
        return WEFT_OK;
    if (merging) {
        weft_array *factor = weft__dora_factor(m);
        status = weft_eval(factor);
        if (status == WEFT_OK)
            weft__dora_keep(m, factor, false);
    }
    if (status == WEFT_OK)
        *out = weft_expand_dims(m->factor, 1); /* (out, 1) */
    return status;
}

/* W + scale B A, with DoRA times the factors, or W without that again; computed in float32. */
static weft_status set_merged(weft_nn_lora_linear *m, bool merging)
{
    weft_array **slot = &((weft_nn_linear *)m->base)->weight, *factor;
    weft_scope_open_lean();
    weft_status status = find_factor(m, merging, &factor);
    weft_array *delta = weft__lora_matrix(m); /* (out, in) */
    weft_array *W = weft_astype(*slot, WEFT_FLOAT32);
    if (factor && !merging)
        W = weft_divide(W, factor);
    W = merging ? weft_add(W, delta) : weft_subtract(W, delta);
    if (factor && merging)
        W = weft_multiply(W, factor);
    weft_array *value = weft_astype(W, weft_dtype_of(*slot));
    if (status == WEFT_OK)
        status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    if (status == WEFT_OK && !merging)
        weft__dora_keep(m, NULL, false);
    return status;
}

static weft_status merge(void *context, const char *path, weft_module **field)
{
    (void)path;
    const bool wanted = *(const bool *)context;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    if ((*field)->type != &weft_nn_lora_linear_type || m->merged == wanted)
        return WEFT_OK;
    const weft_status status = set_merged(m, wanted);
    if (status == WEFT_OK)
        m->merged = wanted;
    return status;
}

weft_status weft_nn_lora_merge(weft_module *m)
{
    bool wanted = true;
    return weft_nn_visit_modules(m, merge, &wanted);
}

weft_status weft_nn_lora_unmerge(weft_module *m)
{
    bool wanted = false;
    return weft_nn_visit_modules(m, merge, &wanted);
}

/* ---- taking out ----------------------------------------------------------------------------- */

static weft_status take_out(void *context, const char *path, weft_module **field)
{
    (void)context;
    (void)path;
    if ((*field)->type != &weft_nn_lora_linear_type || (*field)->parent == NULL)
        return WEFT_OK;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    *field = m->base;
    m->base = NULL;
    weft_nn_free(&m->module);
    return WEFT_OK;
}

void weft_nn_lora_remove(weft_module *m)
{
    weft_nn_visit_modules(m, take_out, NULL);
}
