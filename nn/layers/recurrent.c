/* nn/layers/recurrent.c -- recurrent layers: RNN, GRU, LSTM. */
#include <math.h>
#include <stdio.h>

#include "core/failure.h"
#include "nn/module.h"
#include "weft/layers.h"

/* ---- shared helpers -------------------------------------------------------------------------- */

/* Computes the state after one more element: state[0] is the hidden state and state[1] the cell,
 * both (..., H); NULL before the first step, meaning zeros. x (..., F) is already projected. */
typedef void next_state(weft_module *self, weft_array *x, weft_array *state[2]);

/* Runs the step along axis -2 of x (..., L, F), and stacks the states: out[0] hidden, out[1] cells
 * (NULL: not wanted), (..., L, H). */
static void along(weft_module *self, next_state *step, weft_array *x, weft_array *state[2],
                  int64_t H, weft_array **out[2])
{
    const int64_t L = weft_ok(x) ? weft_dim(x, -2) : 0;
    const size_t n = L > 0 ? (size_t)L : 1;
    weft_array **states[2] = {weft_malloc(n * sizeof **states), weft_malloc(n * sizeof **states)};
    for (int k = 0; k < 2; k++) {
        if (out[k] && L == 0) /* an empty array of the right shape, or the failed array */
            *out[k] = weft_ok(x) ? weft_slice_axis(x, -1, 0, H) : x;
        else if (out[k] && !(states[0] && states[1]))
            *out[k] = weft__memory_error(self->type->name, "steps");
    }
    for (int64_t t = 0; t < L && states[0] && states[1]; t++) {
        step(self, weft_squeeze(weft_slice_axis(x, -2, t, t + 1), -2), state);
        states[0][t] = state[0];
        states[1][t] = state[1];
    }
    for (int k = 0; k < 2 && L > 0 && states[0] && states[1]; k++) {
        if (out[k])
            *out[k] = weft_stack(states[k], (int)L, -2);
    }
    weft_free(states[0]);
    weft_free(states[1]);
}

/* Uniform in +-1/sqrt(H). */
static weft_array *uniform(weft_dims shape, int64_t H)
{
    const double bound = H > 0 ? 1.0 / sqrt((double)H) : 0;
    return weft_random_uniform(NULL, shape, -bound, bound, WEFT_FLOAT32);
}

static weft_array *plus(weft_array *x, weft_array *y)
{
    return y ? weft_add(x, y) : x;
}

/* Part i of the last axis, of H elements. */
static weft_array *part(weft_array *x, int i, int64_t H)
{
    return weft_slice_axis(x, -1, i * H, (i + 1) * H);
}

static weft_array *refuse_vector(const weft_module *m, weft_array *x)
{
    return weft_ok(x) ? weft_error_array("%s: expected (..., L, in), got %d axes", m->type->name,
                                         weft_ndim(x))
                      : x;
}

static bool is_sequence(weft_array *x)
{
    return weft_ok(x) && weft_ndim(x) >= 2;
}

/* ---- RNN ------------------------------------------------------------------------------------ */

static void rnn_step(weft_module *self, weft_array *x, weft_array *state[2])
{
    const weft_nn_rnn *m = (const weft_nn_rnn *)self;
    if (state[0])
        x = weft_add(x, weft_linear(state[0], m->Whh, NULL));
    state[0] = m->activation(x);
}

static weft_array *rnn(weft_module *self, weft_array *x, weft_array *hidden)
{
    weft_nn_rnn *m = (weft_nn_rnn *)self;
    weft_array *y, *state[2] = {hidden, NULL}, **out[2] = {&y, NULL};
    if (!is_sequence(x))
        return refuse_vector(self, x);
    along(self, rnn_step, weft_linear(x, m->Wxh, m->bias), state, weft_dim(m->Whh, 0), out);
    return y;
}

static weft_array *rnn_forward(weft_module *self, weft_array *x)
{
    return rnn(self, x, NULL);
}

static const weft_module_type rnn_type = {.name = "rnn", .forward = rnn_forward};

weft_module *weft_nn_rnn_new(int64_t in, int64_t H, bool bias, weft_activation *activation)
{
    weft_nn_rnn *m = weft_nn_new(weft_nn_rnn, &rnn_type);
    if (m == NULL)
        return NULL;
    m->activation = activation ? activation : weft_tanh;
    weft_nn_param(m, Wxh, uniform(WEFT_DIMS(H, in), H));
    weft_nn_param(m, Whh, uniform(WEFT_DIMS(H, H), H));
    if (bias)
        weft_nn_param(m, bias, uniform(WEFT_DIMS(H), H));
    return weft_nn_finish(m);
}

weft_array *weft_nn_rnn_call(weft_module *m, weft_array *x, weft_array *hidden)
{
    weft_nn_enter_module(m, __func__);
    return weft_nn_leave_module(m, rnn(m, x, hidden));
}

/* ---- GRU ------------------------------------------------------------------------------------ */

static void gru_step(weft_module *self, weft_array *x, weft_array *state[2])
{
    const weft_nn_gru *m = (const weft_nn_gru *)self;
    const int64_t H = weft_dim(m->Wh, 1);
    weft_array *before = state[0], *rz = weft_slice_axis(x, -1, 0, 2 * H), *n = m->bhn;
    if (before) {
        weft_array *h = weft_linear(before, m->Wh, NULL);
        rz = weft_add(rz, weft_slice_axis(h, -1, 0, 2 * H));
        n = plus(part(h, 2, H), m->bhn);
    }
    rz = weft_sigmoid(rz);
    weft_array *z = part(rz, 1, H);
    n = n ? weft_add(part(x, 2, H), weft_multiply(part(rz, 0, H), n)) : part(x, 2, H);
    n = weft_tanh(n);
    /* (1 - z) n + z h = n + z (h - n) */
    weft_array *change = before ? weft_subtract(before, n) : weft_negative(n);
    state[0] = weft_add(n, weft_multiply(z, change));
}

static weft_array *gru(weft_module *self, weft_array *x, weft_array *hidden)
{
    weft_nn_gru *m = (weft_nn_gru *)self;
    weft_array *y, *state[2] = {hidden, NULL}, **out[2] = {&y, NULL};
    if (!is_sequence(x))
        return refuse_vector(self, x);
    along(self, gru_step, weft_linear(x, m->Wx, m->b), state, weft_dim(m->Wh, 1), out);
    return y;
}

static weft_array *gru_forward(weft_module *self, weft_array *x)
{
    return gru(self, x, NULL);
}

static const weft_module_type gru_type = {.name = "gru", .forward = gru_forward};

weft_module *weft_nn_gru_new(int64_t in, int64_t H, bool bias)
{
    weft_nn_gru *m = weft_nn_new(weft_nn_gru, &gru_type);
    if (m == NULL)
        return NULL;
    weft_nn_param(m, Wx, uniform(WEFT_DIMS(3 * H, in), H));
    weft_nn_param(m, Wh, uniform(WEFT_DIMS(3 * H, H), H));
    if (bias) {
        weft_nn_param(m, b, uniform(WEFT_DIMS(3 * H), H));
        weft_nn_param(m, bhn, uniform(WEFT_DIMS(H), H));
    }
    return weft_nn_finish(m);
}

weft_array *weft_nn_gru_call(weft_module *m, weft_array *x, weft_array *hidden)
{
    weft_nn_enter_module(m, __func__);
    return weft_nn_leave_module(m, gru(m, x, hidden));
}

/* ---- LSTM ----------------------------------------------------------------------------------- */

static void lstm_step(weft_module *self, weft_array *x, weft_array *state[2])
{
    const weft_nn_lstm *m = (const weft_nn_lstm *)self;
    const int64_t H = weft_dim(m->Wh, 1);
    if (state[0])
        x = weft_add(x, weft_linear(state[0], m->Wh, NULL));
    weft_array *i = weft_sigmoid(part(x, 0, H)), *f = weft_sigmoid(part(x, 1, H));
    weft_array *g = weft_tanh(part(x, 2, H)), *o = weft_sigmoid(part(x, 3, H));
    weft_array *kept = state[1] ? weft_multiply(f, state[1]) : NULL;
    state[1] = plus(weft_multiply(i, g), kept);
    state[0] = weft_multiply(o, weft_tanh(state[1]));
}

static void lstm(weft_module *self, weft_array *x, weft_array *hidden, weft_array *cell,
                 weft_array **out[2])
{
    weft_nn_lstm *m = (weft_nn_lstm *)self;
    weft_array *state[2] = {hidden, cell};
    if (is_sequence(x)) {
        along(self, lstm_step, weft_linear(x, m->Wx, m->bias), state, weft_dim(m->Wh, 1), out);
        return;
    }
    for (int k = 0; k < 2; k++) {
        if (out[k])
            *out[k] = refuse_vector(self, x);
    }
}

static weft_array *lstm_forward(weft_module *self, weft_array *x)
{
    weft_array *y, **out[2] = {&y, NULL};
    lstm(self, x, NULL, NULL, out);
    return y;
}

static const weft_module_type lstm_type = {.name = "lstm", .forward = lstm_forward};

weft_module *weft_nn_lstm_new(int64_t in, int64_t H, bool bias)
{
    weft_nn_lstm *m = weft_nn_new(weft_nn_lstm, &lstm_type);
    if (m == NULL)
        return NULL;
    weft_nn_param(m, Wx, uniform(WEFT_DIMS(4 * H, in), H));
    weft_nn_param(m, Wh, uniform(WEFT_DIMS(4 * H, H), H));
    if (bias)
        weft_nn_param(m, bias, uniform(WEFT_DIMS(4 * H), H));
    return weft_nn_finish(m);
}

weft_array *weft_nn_lstm_call(weft_module *m, weft_array *x, weft_array *hidden, weft_array *cell,
                              weft_array **cells)
{
    weft_array *ys[2], **out[2] = {&ys[0], cells ? &ys[1] : NULL};
    weft_nn_enter_module(m, __func__);
    lstm(m, x, hidden, cell, out);
    weft_nn_leave_n(m, ys, cells ? 2 : 1);
    if (cells)
        *cells = ys[1];
    return ys[0];
}
