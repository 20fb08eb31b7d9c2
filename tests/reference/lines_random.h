/* tests/reference/lines_random.h -- lines of weft/random.h. */
/* clang-format off */
LINE("random.key", weft_random_key, weft_random_key(7))
STATUS("random.seed", weft_random_seed, 0, (weft_random_seed(7), WEFT_OK))
LINE("random.split", weft_random_split, weft_random_split(k(0), 3))
FILLS("random.split", weft_random_split_pair, 2, weft_random_split_pair(k(0), &out[0], &out[1]))
LINE("", weft_random_next_key, (weft_random_seed(7), weft_random_next_key()))
LINE("random.bits", weft_random_bits, weft_random_bits(k(0), WEFT_DIMS(3), 4))
LINE("random.uniform", weft_random_uniform, weft_random_uniform(k(0), WEFT_DIMS(3), -1, 1, T))
LINE("random.normal", weft_random_normal, weft_random_normal(k(0), WEFT_DIMS(3), 0, 1, T))
LINE("random.bernoulli", weft_random_bernoulli, weft_random_bernoulli(k(0), WEFT_DIMS(3), 0.5))
LINE("random.uniform", weft_random_uniform_array,
     weft_random_uniform_array(k(0), WEFT_DIMS(3), f(1, 3), p(2, 3), T))
LINE("random.normal", weft_random_normal_array,
     weft_random_normal_array(k(0), WEFT_DIMS(3), f(1, 3), p(2, 3), T))
LINE("random.bernoulli", weft_random_bernoulli_array,
     weft_random_bernoulli_array(k(0), WEFT_DIMS(3), u(1, 3)))
LINE("random.truncated_normal", weft_random_truncated_normal,
     weft_random_truncated_normal(k(0), WEFT_DIMS(3), -2, 2, T))
LINE("random.truncated_normal", weft_random_truncated_normal_array,
     weft_random_truncated_normal_array(k(0), WEFT_DIMS(3), weft_negative(p(1, 3)), p(2, 3), T))
LINE("random.gumbel", weft_random_gumbel, weft_random_gumbel(k(0), WEFT_DIMS(3), T))
LINE("random.laplace", weft_random_laplace, weft_random_laplace(k(0), WEFT_DIMS(3), 0, 1, T))
LINE("random.randint", weft_random_randint,
     weft_random_randint(k(0), WEFT_DIMS(3), 0, 10, WEFT_INT32))
LINE("random.randint", weft_random_randint_array,
     weft_random_randint_array(k(0), WEFT_DIMS(3), n(1, 4, 3), weft_add_scalar(n(2, 4, 3), 4),
                               WEFT_INT32))
LINE("random.permutation", weft_random_permutation, weft_random_permutation(k(0), 5))
LINE("random.permutation", weft_random_permute, weft_random_permute(k(0), f(1, 4, 2), 0))
LINE("random.categorical", weft_random_categorical, weft_random_categorical(k(0), f(1, N, 4), 1))
LINE("random.categorical", weft_random_categorical_n,
     weft_random_categorical_n(k(0), f(1, N, 4), 1, 3))
LINE("random.categorical", weft_random_categorical_shape,
     weft_random_categorical_shape(k(0), f(1, 2, 4), 1, WEFT_DIMS(3, 2)))
LINE("random.multivariate_normal", weft_random_multivariate_normal,
     weft_random_multivariate_normal(k(0), WEFT_DIMS(3), f(1, 2),
                                     weft_matmul(m(2, 2, 2), weft_swapaxes(m(2, 2, 2), 0, 1)),
                                     WEFT_NORMAL_CHOLESKY, T))
