/* tests/reference/lines_products.h -- lines of weft/products.h. */
/* clang-format off */
LINE("matmul", weft_matmul, weft_matmul(f(0, N, 3), f(1, 3, 2)))
LINE("", weft_linear, weft_linear(f(0, N, 3), f(1, 2, 3), f(2, 2)))
LINE("", weft_linear_int8, weft_linear_int8(f(0, N, 3), f(1, 2, 3), f(2, 2)))
LINE("addmm", weft_addmm, weft_addmm(f(0, 2), f(1, N, 3), f(2, 3, 2), 1, 0.5))
LINE("tensordot", weft_tensordot,
     weft_tensordot(f(0, N, 3), f(1, 2, 3), WEFT_DIMS(1), WEFT_DIMS(1)))
LINE("tensordot", weft_tensordot_n, weft_tensordot_n(f(0, N, 3), f(1, 3, 2), 1))
LINE("outer", weft_outer, weft_outer(f(0, N), f(1, 2)))
LINE("inner", weft_inner, weft_inner(f(0, N, 3), f(1, 2, 3)))
LINE("vecdot", weft_vecdot, weft_vecdot(f(0, N, 3), f(1, N, 3), 1))
LINE("kron", weft_kron, weft_kron(f(0, N, 2), f(1, 2, 2)))
LINE("einsum", weft_einsum, weft_einsum("ij,kj->ik", ARRAYS(f(0, N, 3), f(1, 2, 3)), 2))
STATUS("einsum_path", weft_einsum_path, 0,
       weft_einsum_path("ij,jk,kl->il", ARRAYS(f(0, 8, 4), f(1, 4, 6), f(2, 6, 2)), 3, said, size))
LINE("gather_mm", weft_gather_mm,
     weft_gather_mm(f(0, 2, N, 3), f(1, 2, 3, 2), n(2, 2, 3), n(3, 2, 3), false))
LINE("", weft_gather_linear,
     weft_gather_linear(f(0, 2, 3), f(1, 2, 4, 3), n(2, 2, 3), n(3, 2, 3)))
LINE("segmented_mm", weft_segmented_mm,
     weft_segmented_mm(f(0, N, 4), f(1, 4, 2), weft_reshape(weft_arange(0, 4, 1, WEFT_INT32),
                                                            WEFT_DIMS(2, 2))))
LINE("block_masked_mm", weft_block_masked_mm,
     weft_block_masked_mm(f(0, 4, 4), f(1, 4, 4), 2, b(2, 2, 2), NULL, NULL))
LINE("hadamard_transform", weft_hadamard_transform, weft_hadamard_transform(f(0, N, 4), 0))
