/* tests/reference/lines_neural.h -- lines of weft/neural.h. */
/* clang-format off */
LINE("fast.rms_norm", weft_rms_norm, weft_rms_norm(f(0, N, 4), p(1, 4), 1e-5, 0))
LINE("fast.layer_norm", weft_layer_norm, weft_layer_norm(f(0, N, 4), p(1, 4), f(2, 4), 1e-5))
LINE("fast.rope", weft_rope,
     weft_rope(f(0, 1, N, 1, 4), weft_arange(0, (double)N, 1, WEFT_INT32),
               weft_rope_frequencies(&(weft_rope_options){.head_dim = 4}, NULL), false, 1))
LINE("", weft_rope_frequencies,
     weft_rope_frequencies(&(weft_rope_options){.head_dim = 8, .theta = 100}, NULL))
LINE("fast.scaled_dot_product_attention", weft_attention,
     weft_attention(f(0, 1, N, 2, 4), f(1, 1, N, 1, 4), f(2, 1, N, 1, 4),
                    &(weft_attention_options){.causal = true}))
LINE("", weft_gated_delta,
     weft_gated_delta(f(0, 1, N, 1, 2), f(1, 1, N, 1, 2), f(2, 1, N, 2, 2),
                      weft_negative(p(3, 1, N, 2)), u(4, 1, N, 2), NULL, NULL))
LINE("", weft_state_space,
     weft_state_space(f(0, 1, N, 1, 2), f(1, 1, N, 1, 2), f(2, 1, N, 2, 2),
                      weft_negative(p(3, 1, N, 2)), NULL, NULL))
LINE("", weft_kv_decode,
     weft_kv_decode(&(weft_kv_codes){weft_astype(n(0, 255, 1, N, 1, 4), WEFT_UINT8),
                                     weft_astype(f(1, 1, N, 1, 1), WEFT_FLOAT32),
                                     weft_astype(f(2, 1, N, 1, 1), WEFT_FLOAT32)}, 8, T))
LINE("", weft_attention_codes,
     weft_attention_codes(f(0, 1, N, 2, 4),
                          &(weft_kv_codes){weft_astype(n(1, 255, 1, N, 1, 4), WEFT_UINT8),
                                           weft_astype(f(2, 1, N, 1, 1), WEFT_FLOAT32),
                                           weft_astype(f(3, 1, N, 1, 1), WEFT_FLOAT32)},
                          &(weft_kv_codes){weft_astype(n(4, 255, 1, N, 1, 4), WEFT_UINT8),
                                           weft_astype(f(5, 1, N, 1, 1), WEFT_FLOAT32),
                                           weft_astype(f(6, 1, N, 1, 1), WEFT_FLOAT32)},
                          &(weft_attention_options){.causal = true}))
LINE("", weft_cross_entropy_rows, weft_cross_entropy_rows(f(0, N, 4), n(1, 4, N)))
LINE("", weft_linear_cross_entropy,
     weft_linear_cross_entropy(f(0, N, 3), f(1, 4, 3), n(2, 4, N), 0))
LINE("", weft_masked_cross_entropy,
     weft_masked_cross_entropy(f(0, N, 4), n(1, 4, N), b(2, N)))
LINE("", weft_mse, weft_mse(f(0, N, 2), f(1, N, 2)))
FILLS("", weft_adamw, 3,
      weft_adamw(f(0, 3), f(1, 3), weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32),
                 weft_zeros(WEFT_DIMS(3), WEFT_FLOAT32),
                 weft_from_data((float[]){0.1F, 1, 0.1F, 0.001F, 1}, WEFT_FLOAT32, WEFT_DIMS(5)),
                 0.9, 0.999, 1e-8, 0.01, out))
