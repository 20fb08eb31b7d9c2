/* tests/reference/lines_conv.h -- lines of weft/conv.h. */
/* clang-format off */
LINE("conv_general", weft_conv_general,
     weft_conv_general(f(0, N, 5, 1), f(1, 2, 3, 1), &(weft_conv_options){.flip = true}))
LINE("conv1d", weft_conv1d, weft_conv1d(f(0, N, 5, 1), f(1, 1, 3, 1), 1, 0, 1, 1))
LINE("conv2d", weft_conv2d,
     weft_conv2d(f(0, N, 3, 3, 1), f(1, 1, 2, 2, 1), NO_AXES, NO_AXES, NO_AXES, 1))
LINE("conv3d", weft_conv3d,
     weft_conv3d(f(0, N, 2, 2, 2, 1), f(1, 1, 2, 2, 2, 1), NO_AXES, NO_AXES, NO_AXES, 1))
LINE("conv_transpose1d", weft_conv_transpose1d,
     weft_conv_transpose1d(f(0, N, 3, 1), f(1, 1, 3, 1), 2, 0, 1, 0, 1))
LINE("conv_transpose2d", weft_conv_transpose2d,
     weft_conv_transpose2d(f(0, N, 2, 2, 1), f(1, 1, 2, 2, 1), WEFT_DIMS(2), NO_AXES, NO_AXES,
                           NO_AXES, 1))
LINE("conv_transpose3d", weft_conv_transpose3d,
     weft_conv_transpose3d(f(0, N, 1, 1, 2, 1), f(1, 1, 1, 1, 2, 1), WEFT_DIMS(2), NO_AXES,
                           NO_AXES, NO_AXES, 1))
LINE("", weft_convolve, weft_convolve(f(0, N), f(1, 2), WEFT_CONVOLVE_FULL))
LINE("", weft_sliding_window_view,
     weft_sliding_window_view(f(0, N, 4), WEFT_DIMS(2), WEFT_DIMS(1)))
LINE("", weft_max_pool, weft_max_pool(f(0, N, 4, 1), WEFT_DIMS(2), NO_AXES, NO_AXES))
LINE("", weft_avg_pool, weft_avg_pool(f(0, N, 4, 1), WEFT_DIMS(2), NO_AXES, NO_AXES))
