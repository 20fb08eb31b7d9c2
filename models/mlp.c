/* models/mlp.c -- the gated MLP: down(activation(gate(x)) * up(x)). */
#include <string.h>

#include "models/block.h"

/* Activations without a fused gate. */
static weft_array *gelu_gate(weft_array *gate, weft_array *up)
{
    return weft_multiply(weft_gelu(gate), up);
}

static weft_array *relu_gate(weft_array *gate, weft_array *up)
{
    return weft_multiply(weft_relu(gate), up);
}

static const struct activation {
    const char *name;
    weft__gate_function *gate;
    weft_activation *alone;
} activations[] = {
    {"silu", weft_swiglu, weft_silu},         {"swish", weft_swiglu, weft_silu},
    {"gelu_new", weft_geglu, weft_gelu_tanh}, {"gelu_pytorch_tanh", weft_geglu, weft_gelu_tanh},
    {"gelu", gelu_gate, weft_gelu},           {"relu", relu_gate, weft_relu},
};

const char weft__activation_names[] = "silu, swish, gelu_pytorch_tanh, gelu_new, gelu, relu";

static const struct activation *find(const char *name)
{
    static const struct activation none = {NULL, NULL, NULL};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(activations[i].name, name) == 0)
            return &activations[i];
    }
    return &none;
}

weft__gate_function *weft__gate_find(const char *activation)
{
    return find(activation)->gate;
}

weft_activation *weft__activation_find(const char *name)
{
    return find(name)->alone;
}

typedef struct mlp {
    weft_module module;
    weft_module *gate_proj, *up_proj; /* NULL: they are the halves of this: */
    weft_module *gate_up_proj;        /* or NULL, too: there is no gate */
    weft_module *down_proj;
    weft__gate_function *gate;
    double gate_scale, down_scale; /* 0: 1 */
} mlp;

weft_array *weft__ungated(weft_array *up)
{
    return weft_square(weft_relu(up));
}

static weft_array *scaled(weft_array *x, double scale)
{
    return scale == 0 || scale == 1 ? x : weft_scale(x, scale);
}

/* x (B, L, E) -> (B, L, E) */
static weft_array *forward(weft_module *self, weft_array *x)
{
    mlp *m = (mlp *)self;
    weft_array *parts[2]; /* (B, L, F) */
    if (m->gate_up_proj == NULL && m->gate_proj == NULL)
        return weft_nn_call(m->down_proj, weft__ungated(weft_nn_call(m->up_proj, x)));
    if (m->gate_up_proj) {
        weft_split(weft_nn_call(m->gate_up_proj, x), 2, -1, parts);
    } else {
        parts[0] = weft_nn_call(m->gate_proj, x);
        parts[1] = weft_nn_call(m->up_proj, x);
    }
    weft_array *y = m->gate(scaled(parts[0], m->gate_scale), parts[1]);
    return scaled(weft_nn_call(m->down_proj, y), m->down_scale);
}

static const weft_module_type mlp_type = {.name = "mlp", .forward = forward};

weft_module *weft__mlp_new(const weft__decoder_config *c, int64_t F)
{
    mlp *m = weft_nn_new(mlp, &mlp_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size;
    m->gate = weft__gate_find(c->hidden_act);
    m->gate_scale = c->gate_scale;
    m->down_scale = c->down_scale;
    if (c->fused_gate_up) {
        weft_nn_child(m, gate_up_proj, weft_nn_linear_new(E, 2 * F, c->mlp_bias));
    } else {
        if (!c->ungated)
            weft_nn_child(m, gate_proj, weft_nn_linear_new(E, F, c->mlp_bias));
        weft_nn_child(m, up_proj, weft_nn_linear_new(E, F, c->mlp_bias));
    }
    weft_nn_child(m, down_proj, weft_nn_linear_new(F, E, c->mlp_bias));
    return weft_nn_finish(m);
}
