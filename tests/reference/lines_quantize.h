/* tests/reference/lines_quantize.h -- lines of weft/quantize.h. */
/* clang-format off */
FILLS("quantize", weft_quantize, 3, weft_quantize(f(0, N, 64), NULL, out))
LINE("dequantize", weft_dequantize,
     weft_dequantize(weft_astype(n(0, 8, N, 8), WEFT_UINT32), p(1, N, 1), f(2, N, 1),
                     WEFT_FLOAT32, NULL))
LINE("quantized_matmul", weft_quantized_matmul,
     weft_quantized_matmul(f(0, N, 64), weft_astype(n(1, 8, 3, 8), WEFT_UINT32), p(2, 3, 1),
                           f(3, 3, 1), true, NULL))
LINE("gather_qmm", weft_gather_qmm,
     weft_gather_qmm(f(0, 2, N, 64), weft_astype(n(1, 8, 2, 3, 8), WEFT_UINT32), p(2, 2, 3, 1),
                     f(3, 2, 3, 1), n(4, 2, 3), n(5, 2, 3), true, NULL))
LINE("qqmm", weft_qqmm, weft_qqmm(f(0, N, 16), f(1, 2, 16), NULL, NULL, NULL, NULL))
LINE("gather_qqmm", weft_gather_qqmm,
     weft_gather_qqmm(f(0, 2, N, 16), f(1, 2, 3, 16), NULL, n(2, 2, 3), n(3, 2, 3), NULL, NULL,
                      NULL))
LINE("to_fp8", weft_to_fp8, weft_to_fp8(f(0, N)))
LINE("from_fp8", weft_from_fp8, weft_from_fp8(weft_astype(n(0, 100, N), WEFT_UINT8), T))
LINE("", weft_from_fp8_e5m2, weft_from_fp8_e5m2(weft_astype(n(0, 100, N), WEFT_UINT8), T))
STATUS("", weft_encoding_at, 0, (snprintf(said, size, "%s", weft_encoding_at(0)->name), WEFT_OK))
STATUS("", weft_encoding_find, 0,
       (snprintf(said, size, "block of %d", (int)weft_encoding_find("mxfp4")->block), WEFT_OK))
STATUS("", weft_encoding_of_kind, 0,
       (snprintf(said, size, "%s", weft_encoding_of_kind(WEFT_ENCODING_AFFINE, 8, 32,
                                                          WEFT_BFLOAT16)->name), WEFT_OK))
STATUS("", weft_quantize_encoding, 0,
       (snprintf(said, size, "%s", weft_quantize_encoding(NULL, WEFT_FLOAT16)->name), WEFT_OK))
LINE("", weft_encode, weft_encode(f(0, N, 32), weft_encoding_find("mxfp4")))
LINE("", weft_decode, weft_decode(weft_encode(f(0, N, 32), weft_encoding_find("mxfp4"))))
STATUS("", weft_from_blocks, 0,
       weft_eval(weft_from_blocks((char[34]){0}, weft_encoding_find("q8_0"), WEFT_FLOAT32,
                                  WEFT_DIMS(1, 32), NULL, NULL)))
LINE("", weft_join_encoded,
     weft_join_encoded(weft_astype(n(0, 8, N, 8), WEFT_UINT32), p(1, N, 1), f(2, N, 1),
                       WEFT_FLOAT32, NULL))
FILLS("", weft_split_encoded, 2,
      weft_split_encoded(weft_encode(f(0, N, 32), weft_encoding_find("mxfp4")), out))
