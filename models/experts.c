/* models/experts.c -- a mixture of experts (Shazeer et al. 2017): a router selects a few of many
 * gated MLPs for each token. */
#include <math.h>

#include "models/block.h"
#include "nn/module.h"

/* ---- the experts ----------------------------------------------------------------------------- */

typedef struct experts {
    weft_module module;
    weft_module *gate_proj, *up_proj; /* NULL: combined in gate_up_proj, */
    weft_module *gate_up_proj;        /* whose first results are the gates, unless they alternate;
                                       * only gate_proj NULL: no gate */
    weft_module *down_proj;
    weft__gate_function *gate;
    bool alternating;
    double alpha, limit; /* weft__decoder_config.swiglu_alpha */
} experts;

static const weft_module_type experts_type = {.name = "experts"};

weft_module *weft__experts_new(const weft__decoder_config *c, const weft__layer *layer)
{
    experts *m = weft_nn_new(experts, &experts_type);
    if (m == NULL)
        return NULL;
    const int64_t n = c->num_experts, F = c->moe_intermediate_size;
    const int64_t E = c->moe_latent_size > 0 ? c->moe_latent_size : c->hidden_size;
    const bool bias = c->alternating;
    m->gate = weft__gate_find(c->hidden_act);
    m->alternating = c->alternating;
    m->alpha = c->swiglu_alpha;
    m->limit = c->swiglu_limit;
    if (layer->gates_with_ups) {
        weft_nn_child(m, gate_up_proj, weft__nn_stack_new(n, E, 2 * F, bias));
    } else {
        if (!c->ungated)
            weft_nn_child(m, gate_proj, weft__nn_stack_new(n, E, F, bias));
        weft_nn_child(m, up_proj, weft__nn_stack_new(n, E, F, bias));
    }
    weft_nn_child(m, down_proj, weft__nn_stack_new(n, F, E, bias));
    return weft_nn_finish(m);
}

/* Gates and ups of the rows, (I, F) each. */
static void gates_and_ups(const experts *m, weft_array *x, weft_array *rows, weft_array *ids,
                          weft_array *parts[2])
{
    if (m->gate_up_proj == NULL) {
        if (m->gate_proj)
            parts[0] = weft__nn_stack_call(m->gate_proj, x, rows, ids);
        parts[1] = weft__nn_stack_call(m->up_proj, x, rows, ids);
        return;
    }
    weft_array *both = weft__nn_stack_call(m->gate_up_proj, x, rows, ids); /* (I, 2 F) */
    if (!m->alternating) {
        weft_split(both, 2, -1, parts);
        return;
    }
    both = weft_reshape(both, WEFT_DIMS(weft_dim(both, 0), weft_dim(both, 1) / 2, 2));
    for (int i = 0; i < 2; i++)
        parts[i] = weft_squeeze(weft_slice_axis(both, 2, i, i + 1), 2);
}

/* The gated rows: (I, F). `gate` may be NULL. */
static weft_array *gated(const experts *m, weft_array *gate, weft_array *up)
{
    if (gate == NULL)
        return weft__ungated(up);
    if (m->alpha == 0)
        return m->gate(gate, up);
    const weft_dtype dtype = weft_dtype_of(gate);
    weft_array *most = weft_scalar(m->limit, dtype);
    gate = weft_minimum(gate, most);
    up = weft_clip(up, weft_scalar(-m->limit, dtype), most);
    gate = weft_multiply(gate, weft_sigmoid(weft_scale(gate, m->alpha)));
    return weft_multiply(weft_add_scalar(up, 1), gate);
}

weft_array *weft__experts_forward(weft_module *self, weft_array *x, weft_array *ids,
                                  weft_array *weights)
{
    experts *m = (experts *)self;
    weft_nn_enter(m);
    const int64_t T = weft_dim(x, 0), E = weft_dim(x, 1), k = weft_dim(ids, 1);
    weft_array *token = weft_arange(0, (double)T, 1, WEFT_INT32); /* (T) */
    token = weft_broadcast_to(weft_expand_dims(token, 1), WEFT_DIMS(T, k));
    token = weft_reshape(token, WEFT_DIMS(T * k));
    ids = weft_reshape(ids, WEFT_DIMS(T * k));
    weft_array *parts[2] = {NULL, NULL}; /* (T k, F) */
    gates_and_ups(m, x, token, ids, parts);
    weft_array *y = gated(m, parts[0], parts[1]);
    y = weft__nn_stack_call(m->down_proj, y, NULL, ids); /* (T k, E) */
    y = weft_multiply(weft_reshape(y, WEFT_DIMS(T, k, E)), weft_expand_dims(weights, 2));
    y = weft_sum(y, WEFT_DIMS(1), false); /* (T, E) */
    return weft_nn_leave(m, weft_astype(y, weft_dtype_of(x)));
}

/* ---- the router ------------------------------------------------------------------------------ */

/* Sigmoids (T, n) of which k are chosen: their weights (T, k). */
static weft_array *sigmoid_weights(weft_array *scores, weft_array *ids, const weft__routing *r)
{
    weft_array *chosen = weft_take_along_axis(scores, ids, -1);
    if (r->normalized)
        chosen =
            weft_divide(chosen, weft_add_scalar(weft_sum(chosen, WEFT_DIMS(-1), true), r->epsilon));
    return r->factor == 1 ? chosen : weft_scale(chosen, r->factor);
}

/* Shares of the softmax of scores (T, n): (T, k). */
static weft_array *softmax_weights(weft_array *scores, weft_array *ids, const weft__routing *r)
{
    weft_array *chosen = weft_take_along_axis(scores, ids, -1);
    if (r->normalized)
        return weft_softmax(chosen, -1);
    return weft_exp(weft_subtract(chosen, weft_logsumexp(scores, WEFT_DIMS(-1), true)));
}

/* Scores (T, n), hidden in all groups but the few whose two best experts have the largest sum. */
static weft_array *in_best_groups(weft_array *scores, const weft__routing *r)
{
    const int64_t T = weft_dim(scores, 0), n = weft_dim(scores, 1), G = r->groups;
    if (G <= 1 || !weft_ok(scores))
        return scores;
    weft_array *groups = weft_reshape(scores, WEFT_DIMS(T, G, n / G));
    weft_array *best = weft_sum(weft_topk(groups, 2, -1), WEFT_DIMS(-1), false); /* (T, G) */
    weft_array *ids = weft_argtopk(best, r->of_groups, -1);
    weft_array *open = weft_put_along_axis(weft_zeros(WEFT_DIMS(T, G), WEFT_FLOAT32), ids,
                                           weft_ones(weft_shape(ids), WEFT_FLOAT32), -1);
    open = weft_expand_dims(weft_greater_scalar(open, 0), 2); /* (T, G, 1) */
    return weft_reshape(weft_where_scalar(open, groups, -INFINITY), WEFT_DIMS(T, n));
}

void weft__route(weft_array *logits, weft_array *bias, const weft__routing *r,
                 weft_layer_summary *summary, weft_array **ids, weft_array **weights)
{
    const bool sigmoid = r->factor > 0;
    weft_array *scores = weft_astype(logits, WEFT_FLOAT32);
    scores = sigmoid ? weft_sigmoid(scores) : scores;
    weft_array *by = bias ? weft_add(scores, weft_astype(bias, WEFT_FLOAT32)) : scores;
    *ids = weft_argtopk(in_best_groups(by, r), r->k, -1);
    weft_array *chosen =
        sigmoid ? sigmoid_weights(scores, *ids, r) : softmax_weights(scores, *ids, r);
    *weights = weft_astype(chosen, weft_dtype_of(logits));
    if (summary != NULL) { /* failed arrays leave it empty; the forward pass reports the failure */
        (void)weft_set(&summary->experts, weft_astype(*ids, WEFT_INT32));
        (void)weft_set(&summary->weights, chosen);
    }
}

typedef struct moe {
    weft_module module;
    weft_module *gate, *switch_mlp;
    weft_module *fc1_latent_proj, *fc2_latent_proj; /* around the experts, or NULL */
    weft_array *bias;                               /* (experts), of choices only; or NULL */
    weft__routing routing;
    bool wide; /* weft__decoder_config.wide_router */
} moe;

/* x (B, L, E) -> (B, L, E) */
static weft_array *through_moe(moe *m, weft_array *x, weft_layer_summary *summary)
{
    weft_array *ids, *weights, *rows = weft_flatten(x, 0, 1); /* (T, E) */
    weft_array *logits = weft_nn_call(m->gate, m->wide ? weft_astype(rows, WEFT_FLOAT32) : rows);
    weft__route(logits, m->bias, &m->routing, summary, &ids, &weights);
    if (m->fc1_latent_proj)
        rows = weft_nn_call(m->fc1_latent_proj, rows);
    weft_array *y = weft__experts_forward(m->switch_mlp, rows, ids, weights);
    if (m->fc2_latent_proj)
        y = weft_nn_call(m->fc2_latent_proj, y);
    return weft_reshape(y, weft_shape(x));
}

static weft_array *moe_forward(weft_module *self, weft_array *x)
{
    return through_moe((moe *)self, x, NULL);
}

static const weft_module_type moe_type = {.name = "moe", .forward = moe_forward};

weft_module *weft__moe_new(const weft__decoder_config *c, const weft__layer *layer)
{
    moe *m = weft_nn_new(moe, &moe_type);
    if (m == NULL)
        return NULL;
    m->routing =
        (weft__routing){c->num_experts_per_tok, c->norm_topk_prob, c->routed_scaling_factor,
                        c->router_epsilon,      c->n_group,        c->topk_group};
    const bool other = c->alternating; /* names, and biases */
    weft_nn_add_child(&m->module, other ? "router" : "gate", &m->gate,
                      weft_nn_linear_new(c->hidden_size, c->num_experts, other));
    weft_nn_add_child(&m->module, other ? "experts" : "switch_mlp", &m->switch_mlp,
                      weft__experts_new(c, layer));
    if (c->moe_latent_size > 0) {
        const int64_t E = c->hidden_size, width = c->moe_latent_size;
        weft_nn_child(m, fc1_latent_proj, weft_nn_linear_new(E, width, c->mlp_bias));
        weft_nn_child(m, fc2_latent_proj, weft_nn_linear_new(width, E, c->mlp_bias));
    }
    if (c->router_bias)
        weft_nn_add_slot(&m->module, c->router_bias, &m->bias,
                         weft_zeros(WEFT_DIMS(c->num_experts), WEFT_FLOAT32), WEFT_SLOT_STATISTIC);
    m->wide = c->wide_router && !m->module.failed;
    for (int i = 0; m->wide && i < m->gate->n_slots; i++)
        m->gate->slots[i].wide = true;
    for (int i = 0; m->wide && i < m->module.n_slots; i++)
        m->module.slots[i].wide = true;
    return weft_nn_finish(m);
}

/* ---- beside an MLP --------------------------------------------------------------------------- */

typedef struct shared_moe {
    weft_module module;
    weft_module *moe, *shared, *gate; /* the first and the last may be NULL */
} shared_moe;

/* x (B, L, E) -> (B, L, E) */
static weft_array *through_shared(shared_moe *m, weft_array *x, weft_layer_summary *summary)
{
    weft_array *share = m->gate ? weft_sigmoid(weft_nn_call(m->gate, x)) : NULL; /* (B, L, 1) */
    weft_array *y = weft_nn_call(m->shared, x);
    y = share ? weft_multiply(y, share) : y;
    return m->moe ? weft_add(weft__mlp_call(m->moe, x, summary), y) : y;
}

static weft_array *shared_moe_forward(weft_module *self, weft_array *x)
{
    return through_shared((shared_moe *)self, x, NULL);
}

static const weft_module_type shared_moe_type = {.name = "shared_moe",
                                                 .forward = shared_moe_forward};

weft_array *weft__mlp_call(weft_module *mlp, weft_array *x, weft_layer_summary *summary)
{
    if (mlp->type != &moe_type && mlp->type != &shared_moe_type)
        return weft_nn_call(mlp, x);
    weft_nn_enter_module(mlp, mlp->type->name);
    x = mlp->type == &moe_type ? through_moe((moe *)mlp, x, summary)
                               : through_shared((shared_moe *)mlp, x, summary);
    return weft_nn_leave_module(mlp, x);
}

weft_module *weft__shared_moe_new(const char *name, weft_module *sparse, const char *shared_name,
                                  weft_module *shared, const char *gate_name, weft_module *gate)
{
    shared_moe *m = weft_nn_new(shared_moe, &shared_moe_type);
    if (m == NULL) {
        weft_nn_free(sparse);
        weft_nn_free(shared);
        weft_nn_free(gate);
        return NULL;
    }
    if (name)
        weft_nn_add_child(&m->module, name, &m->moe, sparse);
    weft_nn_add_child(&m->module, shared_name, &m->shared, shared);
    if (gate_name)
        weft_nn_add_child(&m->module, gate_name, &m->gate, gate);
    return weft_nn_finish(m);
}
