/* tests/reference/lines_init.h -- lines of weft/init.h. */
/* clang-format off */
LINE("", weft_init_constant, weft_init_constant(WEFT_DIMS(2, 2), 7, T))
LINE("", weft_init_identity, weft_init_identity(WEFT_DIMS(2, 2), T))
LINE("", weft_init_normal, weft_init_normal(k(0), WEFT_DIMS(2, 2), 0, 1, T))
LINE("", weft_init_uniform, weft_init_uniform(k(0), WEFT_DIMS(2, 2), -1, 1, T))
LINE("", weft_init_glorot_normal, weft_init_glorot_normal(k(0), WEFT_DIMS(2, 2), 1, T))
LINE("", weft_init_glorot_uniform, weft_init_glorot_uniform(k(0), WEFT_DIMS(2, 2), 1, T))
LINE("", weft_init_he_normal, weft_init_he_normal(k(0), WEFT_DIMS(2, 2), WEFT_FAN_IN, 1, T))
LINE("", weft_init_he_uniform, weft_init_he_uniform(k(0), WEFT_DIMS(2, 2), WEFT_FAN_IN, 1, T))
LINE("", weft_init_sparse, weft_init_sparse(k(0), WEFT_DIMS(2, 4), 0.5, 0, 1, T))
LINE("", weft_init_orthogonal, weft_init_orthogonal(k(0), WEFT_DIMS(2, 2), 1, T))
