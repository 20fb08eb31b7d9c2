/* tests/reference/lines_losses.h -- lines of weft/losses.h. */
/* clang-format off */
LINE("", weft_loss_cross_entropy,
     weft_loss_cross_entropy(f(0, N, 4), n(1, 4, N), NULL, 1, 0.1, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_binary_cross_entropy,
     weft_loss_binary_cross_entropy(f(0, N), u(1, N), NULL, true, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_nll,
     weft_loss_nll(weft_log_softmax(f(0, N, 4), 1), n(1, 4, N), 1, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_kl_div,
     weft_loss_kl_div(weft_log_softmax(f(0, N, 4), 1), weft_log_softmax(f(1, N, 4), 1), 1,
                      WEFT_REDUCTION_MEAN))
LINE("", weft_loss_hinge,
     weft_loss_hinge(f(0, N), weft_sign(f(1, N)), WEFT_REDUCTION_SUM))
LINE("", weft_loss_l1, weft_loss_l1(f(0, N), f(1, N), WEFT_REDUCTION_NONE))
LINE("", weft_loss_mse, weft_loss_mse(f(0, N), f(1, N), WEFT_REDUCTION_MEAN))
LINE("", weft_loss_smooth_l1, weft_loss_smooth_l1(f(0, N), f(1, N), 1, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_huber, weft_loss_huber(f(0, N), f(1, N), 1, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_log_cosh, weft_loss_log_cosh(f(0, N), f(1, N), WEFT_REDUCTION_MEAN))
LINE("", weft_loss_gaussian_nll,
     weft_loss_gaussian_nll(f(0, N), f(1, N), p(2, N), true, 1e-6, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_triplet,
     weft_loss_triplet(f(0, N, 4), f(1, N, 4), f(2, N, 4), 1, 2, 1, 1e-6, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_cosine_similarity,
     weft_loss_cosine_similarity(f(0, N, 4), f(1, N, 4), 1, 1e-8, WEFT_REDUCTION_MEAN))
LINE("", weft_loss_margin_ranking,
     weft_loss_margin_ranking(f(0, N), f(1, N), weft_sign(f(2, N)), 0.1, WEFT_REDUCTION_MEAN))
