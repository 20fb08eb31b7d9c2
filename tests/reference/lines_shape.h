/* tests/reference/lines_shape.h -- lines of weft/shape.h. */
/* clang-format off */
LINE("reshape", weft_reshape, weft_reshape(f(0, N, 4), WEFT_DIMS(2, -1)))
LINE("flatten", weft_flatten, weft_flatten(f(0, N, 2, 2), 0, 1))
LINE("unflatten", weft_unflatten, weft_unflatten(f(0, N, 4), 1, WEFT_DIMS(2, -1)))
LINE("transpose", weft_transpose, weft_transpose(f(0, 2, N), WEFT_DIMS(1, 0)))
LINE("swapaxes", weft_swapaxes, weft_swapaxes(f(0, 2, N), 0, 1))
LINE("moveaxis", weft_moveaxis, weft_moveaxis(f(0, 2, N, 2), 0, -1))
LINE("flip", weft_flip, weft_flip(f(0, 2, N), WEFT_DIMS(1)))
LINE("expand_dims", weft_expand_dims, weft_expand_dims(f(0, N), 0))
LINE("", weft_expand_dims_axes, weft_expand_dims_axes(f(0, N), WEFT_DIMS(0, 2)))
LINE("squeeze", weft_squeeze, weft_squeeze(f(0, 1, N), 0))
LINE("", weft_squeeze_axes, weft_squeeze_axes(f(0, 1, N, 1), WEFT_ALL_AXES))
LINE("atleast_1d", weft_atleast_1d, weft_atleast_1d(f0(0)))
LINE("atleast_2d", weft_atleast_2d, weft_atleast_2d(f(0, N)))
LINE("atleast_3d", weft_atleast_3d, weft_atleast_3d(f(0, N)))
LINE("broadcast_to", weft_broadcast_to, weft_broadcast_to(f(0, N), WEFT_DIMS(2, N)))
FILLS("broadcast_arrays", weft_broadcast_arrays, 2,
      weft_broadcast_arrays(ARRAYS(f(0, N, 1), f(1, 2)), 2, out))
LINE("as_strided", weft_as_strided,
     weft_as_strided(f(0, 5), WEFT_DIMS(3, 3), WEFT_DIMS(1, 1), 0))
LINE("view", weft_view, weft_view(f(0, N), WEFT_UINT8))
LINE("copy", weft_copy, weft_copy(f(0, N)))
LINE("number_of_elements", weft_number_of_elements,
     weft_number_of_elements(f(0, N, 2), WEFT_ALL_AXES, false, WEFT_INT32))
LINE("slice", weft_slice,
     weft_slice(f(0, N, 6), WEFT_DIMS(1), WEFT_DIMS(0), WEFT_DIMS(6), WEFT_DIMS(2)))
LINE("", weft_slice_axis, weft_slice_axis(f(0, N, 4), 1, 1, -1))
LINE("slice", weft_dynamic_slice,
     weft_dynamic_slice(f(0, N, 4), n(1, 3, 1), WEFT_DIMS(1), WEFT_DIMS(2)))
LINE("slice_update", weft_slice_update,
     weft_slice_update(f(0, N, 4), f(1, N, 2), n(2, 3, 1), WEFT_DIMS(1)))
LINE("slice_update", weft_slice_update_static,
     weft_slice_update_static(f(0, N, 4), f(1, N, 2), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(3),
                              NO_AXES))
LINE("slice_update_add", weft_slice_update_add,
     weft_slice_update_add(f(0, N, 4), f(1, N, 2), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(3),
                           NO_AXES))
LINE("slice_update_prod", weft_slice_update_prod,
     weft_slice_update_prod(f(0, N, 4), f(1, N, 2), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(3),
                            NO_AXES))
LINE("slice_update_max", weft_slice_update_max,
     weft_slice_update_max(f(0, N, 4), f(1, N, 2), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(3),
                           NO_AXES))
LINE("slice_update_min", weft_slice_update_min,
     weft_slice_update_min(f(0, N, 4), f(1, N, 2), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(3),
                           NO_AXES))
LINE("concatenate", weft_concatenate, weft_concatenate(ARRAYS(f(0, N, 2), f(1, N, 1)), 2, 1))
LINE("stack", weft_stack, weft_stack(ARRAYS(f(0, N), f(1, N)), 2, 0))
FILLS("split", weft_split, 2, weft_split(f(0, N, 4), 2, 1, out))
FILLS("split", weft_split_at, 3, weft_split_at(f(0, N, 4), WEFT_DIMS(1, 3), 1, out))
FILLS("unstack", weft_unstack, 2, weft_unstack(f(0, 2, N), 0, out, 2))
LINE("repeat", weft_repeat, weft_repeat(f(0, N), 2, 0))
LINE("tile", weft_tile, weft_tile(f(0, N), WEFT_DIMS(2, 2)))
LINE("roll", weft_roll, weft_roll(f(0, N), WEFT_DIMS(1), WEFT_DIMS(0)))
LINE("diff", weft_diff, weft_diff(f(0, N, 4), 1, 1, NULL, NULL))
LINE("pad", weft_pad, weft_pad(f(0, N), 0, 1, 2, 0))
LINE("pad", weft_pad_axes,
     weft_pad_axes(f(0, N, 3), WEFT_DIMS(1), WEFT_DIMS(1), WEFT_DIMS(2), WEFT_PAD_REFLECT, 0))
LINE("pad", weft_pad_with,
     weft_pad_with(f(0, N), WEFT_DIMS(0), WEFT_DIMS(1), WEFT_DIMS(2), f0(1)))
LINE("contiguous", weft_contiguous, weft_contiguous(weft_swapaxes(f(0, 2, N), 0, 1)))
