/* tests/nn/test_recurrent.c -- RNN, GRU and LSTM against PyTorch's, from states and from zeros. */
#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/layers.h"

static const double near = 4e-6; /* five steps of float32 */

static weft_array *rnn(weft_module *m, weft_array *const *in)
{
    return weft_nn_rnn_call(m, in[0], in[1]);
}

static weft_array *gru(weft_module *m, weft_array *const *in)
{
    return weft_nn_gru_call(m, in[0], in[1]);
}

static weft_array *lstm(weft_module *m, weft_array *const *in)
{
    return weft_nn_lstm_call(m, in[0], in[1], in[2], NULL);
}

static void all_equal_pytorch(void)
{
    if (!golden_open("nn/layers"))
        return;
    against_module("rnn", weft_nn_rnn_new(3, 4, true, NULL), rnn, near);
    against_module("rnn_zeros", weft_nn_rnn_new(3, 4, false, weft_tanh), NULL, near);
    against_module("gru", weft_nn_gru_new(3, 4, true), gru, near);
    against_module("gru_zeros", weft_nn_gru_new(3, 4, true), NULL, near);
    against_module("gru_bare", weft_nn_gru_new(3, 4, false), gru, near);
    against_module("lstm", weft_nn_lstm_new(3, 4, true), lstm, near);
    against_module("lstm_zeros", weft_nn_lstm_new(3, 4, true), NULL, near);
    golden_close();
}

/* The second half begins with the last states of the first. */
static void an_lstm_continues_from_its_states(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_lstm_new(3, 4, true);
    weft_array *x = weft_random_normal(weft_random_key(1), WEFT_DIMS(2, 6, 3), 0, 1, WEFT_FLOAT32);
    if (CHECK(m != NULL)) {
        weft_array *cells, *whole = weft_nn_call(m, x);
        weft_array *half = weft_nn_lstm_call(m, weft_slice_axis(x, 1, 0, 3), NULL, NULL, &cells);
        weft_array *h = weft_squeeze(weft_slice_axis(half, 1, 2, 3), 1);
        weft_array *c = weft_squeeze(weft_slice_axis(cells, 1, 2, 3), 1);
        weft_array *rest = weft_nn_lstm_call(m, weft_slice_axis(x, 1, 3, 6), h, c, NULL);
        weft_array *both = weft_concatenate((weft_array *[]){half, rest}, 2, 1);
        CHECK_EQ_INT(weft_item_int(weft_allclose(both, whole, 0, 1e-6, false)), 1);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

static void edges(void)
{
    weft_scope_open();
    weft_module *m[] = {weft_nn_rnn_new(3, 4, true, NULL), weft_nn_gru_new(3, 4, false),
                        weft_nn_lstm_new(3, 4, true)};
    for (int i = 0; i < 3 && CHECK(m[i] != NULL); i++) {
        weft_array *none = weft_nn_call(m[i], weft_zeros(WEFT_DIMS(2, 0, 3), WEFT_FLOAT32));
        CHECK_EQ_INT(weft_ndim(none), 3);
        CHECK_EQ_INT(weft_dim(none, 1), 0);
        CHECK_EQ_INT(weft_dim(none, 2), 4);
        weft_array *one = weft_nn_call(m[i], weft_zeros(WEFT_DIMS(5, 3), WEFT_FLOAT32));
        CHECK_EQ_INT(weft_ndim(one), 2);
        CHECK(!weft_ok(weft_nn_call(m[i], weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32))));
        CHECK(!weft_ok(weft_nn_call(m[i], weft_zeros(WEFT_DIMS(2, 5, 7), WEFT_FLOAT32))));
    }
    for (int i = 0; i < 3; i++)
        weft_nn_free(m[i]);
    weft_scope_close(NULL);
}

CHECK_MAIN("recurrent", CHECK_CASE(all_equal_pytorch),
           CHECK_CASE(an_lstm_continues_from_its_states), CHECK_CASE(edges))
