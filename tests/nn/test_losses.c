/* tests/nn/test_losses.c -- losses and their gradients against PyTorch's, reductions, refused
 * input. */
#include <math.h>

#include "tests/check.h"
#include "tests/nn/against.h"
#include "tests/support/golden.h"
#include "weft/losses.h"

/* clang-format off */
#define LOSS(name, ...)                                                                            \
    static weft_array *name(weft_array *const *in) { return __VA_ARGS__; }
LOSS(ce, weft_loss_cross_entropy(in[0], in[1], NULL, 1, 0, WEFT_REDUCTION_NONE))
LOSS(ce_smooth, weft_loss_cross_entropy(in[0], in[1], NULL, 1, 0.2, WEFT_REDUCTION_NONE))
LOSS(ce_weights, weft_loss_cross_entropy(in[0], in[1], in[2], -2, 0, WEFT_REDUCTION_NONE))
LOSS(ce_soft_smooth, weft_loss_cross_entropy(in[0], in[1], NULL, 1, 0.1, WEFT_REDUCTION_NONE))
LOSS(bce_logits, weft_loss_binary_cross_entropy(in[0], in[1], NULL, true, WEFT_REDUCTION_NONE))
LOSS(bce, weft_loss_binary_cross_entropy(in[0], in[1], NULL, false, WEFT_REDUCTION_NONE))
LOSS(bce_weights, weft_loss_binary_cross_entropy(in[0], in[1], in[2], true, WEFT_REDUCTION_NONE))
LOSS(nll, weft_loss_nll(in[0], in[1], 1, WEFT_REDUCTION_NONE))
LOSS(kl_div, weft_loss_kl_div(in[0], in[1], -1, WEFT_REDUCTION_NONE))
LOSS(hinge, weft_loss_hinge(in[0], in[1], WEFT_REDUCTION_NONE))
LOSS(l1, weft_loss_l1(in[0], in[1], WEFT_REDUCTION_NONE))
LOSS(mse, weft_loss_mse(in[0], in[1], WEFT_REDUCTION_NONE))
LOSS(smooth_l1, weft_loss_smooth_l1(in[0], in[1], 0.6, WEFT_REDUCTION_NONE))
LOSS(huber, weft_loss_huber(in[0], in[1], 0.7, WEFT_REDUCTION_NONE))
LOSS(log_cosh, weft_loss_log_cosh(in[0], in[1], WEFT_REDUCTION_NONE))
LOSS(gaussian_nll,
     weft_loss_gaussian_nll(in[0], in[1], in[2], true, 1e-6, WEFT_REDUCTION_NONE))
LOSS(triplet, weft_loss_triplet(in[0], in[1], in[2], -1, 3, 1, 1e-6, WEFT_REDUCTION_NONE))
LOSS(cosine, weft_loss_cosine_similarity(in[0], in[1], 1, 1e-8, WEFT_REDUCTION_NONE))
LOSS(margin, weft_loss_margin_ranking(in[0], in[1], in[2], 0.3, WEFT_REDUCTION_NONE))
#undef LOSS
/* clang-format on */

static void all_equal_pytorch(void)
{
    static const struct {
        const char *name;
        weft_array *(*f)(weft_array *const *in);
    } rows[] = {
        {"ce", ce},
        {"ce_smooth", ce_smooth},
        {"ce_weights", ce_weights},
        {"ce_soft", ce},
        {"ce_soft_smooth", ce_soft_smooth},
        {"bce_logits", bce_logits},
        {"bce", bce},
        {"bce_weights", bce_weights},
        {"nll", nll},
        {"kl_div", kl_div},
        {"hinge", hinge},
        {"l1", l1},
        {"mse", mse},
        {"smooth_l1", smooth_l1},
        {"huber", huber},
        {"log_cosh", log_cosh},
        {"gaussian_nll", gaussian_nll},
        {"triplet", triplet},
        {"cosine", cosine},
        {"margin", margin},
    };
    if (!golden_open("nn/functions"))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        against_function(rows[i].name, rows[i].f, 4e-6); /* sums of some terms in float32 */
    golden_close();
}

static void reductions(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){1, 2, 4}, WEFT_FLOAT32, WEFT_DIMS(3));
    weft_array *t = weft_from_data((float[]){0, 0, 0}, WEFT_FLOAT32, WEFT_DIMS(3));
    CHECK_CLOSE(weft_item(weft_loss_mse(x, t, WEFT_REDUCTION_SUM)), 21, 0);
    CHECK_CLOSE(weft_item(weft_loss_mse(x, t, WEFT_REDUCTION_MEAN)), 7, 0);
    CHECK_EQ_INT(weft_ndim(weft_loss_mse(x, t, WEFT_REDUCTION_NONE)), 1);
    weft_array *half = weft_astype(x, WEFT_BFLOAT16);
    CHECK_EQ_INT(weft_dtype_of(weft_loss_l1(half, t, WEFT_REDUCTION_MEAN)), WEFT_FLOAT32);
    weft_scope_close(NULL);
}

/* Rows without a class have no loss, smoothed or not, and no gradient; clipped logarithms. */
static void edges(void)
{
    weft_scope_open();
    weft_array *x = weft_from_data((float[]){1, 2, 3, 4}, WEFT_FLOAT32, WEFT_DIMS(2, 2));
    weft_array *t = weft_from_data((int32_t[]){-1, 0}, WEFT_INT32, WEFT_DIMS(2));
    float got[2];
    weft_array *y = weft_loss_cross_entropy(x, t, NULL, -1, 0.5, WEFT_REDUCTION_NONE);
    if (CHECK_OK(weft_read(y, WEFT_FLOAT32, got, 2))) {
        CHECK_CLOSE(got[0], 0, 0);
        CHECK_CLOSE(got[1], log(1 + exp(1)) - 0.25, 1e-6);
    }
    weft_array *one = weft_scalar(1, WEFT_FLOAT32), *zero = weft_scalar(0, WEFT_FLOAT32);
    y = weft_loss_binary_cross_entropy(one, zero, NULL, false, WEFT_REDUCTION_NONE);
    CHECK_CLOSE(weft_item(y), 100, 0);
    y = weft_loss_log_cosh(weft_scalar(-1e30, WEFT_FLOAT32), zero, WEFT_REDUCTION_NONE);
    CHECK_RELATIVE(weft_item(y), 1e30, 1e-6);
    weft_scope_close(NULL);
}

static void refusals_name_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(2, 3), WEFT_FLOAT32);
    weft_array *t = weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_loss_mse(x, t, WEFT_REDUCTION_MEAN)),
                   "mse: shapes differ: (2, 3) and (3,)");
    CHECK_CONTAINS(weft_error(weft_loss_binary_cross_entropy(x, x, t, true, WEFT_REDUCTION_MEAN)),
                   "weights: shapes differ: (2, 3) and (3,)");
    CHECK_CONTAINS(weft_error(weft_loss_cross_entropy(x, x, NULL, -1, 1, WEFT_REDUCTION_MEAN)),
                   "label smoothing in [0, 1), got 1");
    CHECK_CONTAINS(weft_error(weft_loss_smooth_l1(x, x, 0, WEFT_REDUCTION_MEAN)),
                   "positive beta, got 0");
    weft_array *bad = weft_error_array("bad");
    CHECK_CONTAINS(weft_error(weft_loss_l1(bad, x, WEFT_REDUCTION_MEAN)), "bad");
    weft_scope_close(NULL);
}

CHECK_MAIN("losses", CHECK_CASE(all_equal_pytorch), CHECK_CASE(reductions), CHECK_CASE(edges),
           CHECK_CASE(refusals_name_what_is_wrong))
