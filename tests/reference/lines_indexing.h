/* tests/reference/lines_indexing.h -- lines of weft/indexing.h. */
/* clang-format off */
LINE("take", weft_take, weft_take(f(0, 4, N), n(1, 4, 3), 0))
LINE("take_along_axis", weft_take_along_axis,
     weft_take_along_axis(f(0, N, 4), n(1, 4, N, 2), 1))
LINE("scatter_add_axis", weft_scatter_add_along_axis,
     weft_scatter_add_along_axis(f(0, N, 4), n(1, 4, N, 2), f(2, N, 2), 1))
LINE("put_along_axis", weft_put_along_axis,
     weft_put_along_axis(f(0, N, 4), n(1, 4, N, 2), f(2, N, 2), 1))
LINE("take", weft_take_flat, weft_take_flat(f(0, N, 4), n(1, 8, 3)))
LINE("", weft_embedding, weft_embedding(f(0, 5, 2), n(1, 5, N)))
LINE("gather", weft_gather,
     weft_gather(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, WEFT_DIMS(0), WEFT_DIMS(1, 3)))
LINE("scatter", weft_scatter,
     weft_scatter(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, f(2, N, 1, 3), WEFT_DIMS(0)))
LINE("scatter_add", weft_scatter_add,
     weft_scatter_add(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, f(2, N, 1, 3), WEFT_DIMS(0)))
LINE("scatter_prod", weft_scatter_prod,
     weft_scatter_prod(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, f(2, N, 1, 3), WEFT_DIMS(0)))
LINE("scatter_max", weft_scatter_max,
     weft_scatter_max(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, f(2, N, 1, 3), WEFT_DIMS(0)))
LINE("scatter_min", weft_scatter_min,
     weft_scatter_min(f(0, 4, 3), ARRAYS(n(1, 4, N)), 1, f(2, N, 1, 3), WEFT_DIMS(0)))
LINE("masked_scatter", weft_masked_scatter,
     weft_masked_scatter(f(0, 4), weft_greater(weft_arange(0, 4, 1, WEFT_INT32),
                                               weft_scalar_int(1, WEFT_INT32)), f(1, 2)))
LINE("", weft_index, WEFT_INDEX(f(0, N, 4), weft_every(), weft_indices(n(1, 4, 2))))
LINE("", weft_index_update,
     weft_index_update(f(0, N, 4), (weft_index_item[]){weft_every(), weft_at(0)}, 2, f(1, N)))
LINE("", weft_index_add,
     weft_index_add(f(0, N, 4), (weft_index_item[]){weft_every(), weft_at(0)}, 2, f(1, N)))
LINE("", weft_index_multiply,
     weft_index_multiply(f(0, N, 4), (weft_index_item[]){weft_every(), weft_at(0)}, 2, f(1, N)))
LINE("", weft_index_maximum,
     weft_index_maximum(f(0, N, 4), (weft_index_item[]){weft_every(), weft_at(0)}, 2, f(1, N)))
LINE("", weft_index_minimum,
     weft_index_minimum(f(0, N, 4), (weft_index_item[]){weft_every(), weft_at(0)}, 2, f(1, N)))
LINE("", weft_clip_indices, weft_clip_indices(weft_scale(n(0, 8, N), 2), 4))
LINE("", weft_wrap_indices, weft_wrap_indices(weft_scale(n(0, 8, N), 2), 4))
STATUS("", weft_set_index_checks, 0, (weft_set_index_checks(true), WEFT_OK))
STATUS("", weft_index_checks, 0,
       (snprintf(said, size, "%s", weft_index_checks() ? "on" : "off"), WEFT_OK))
