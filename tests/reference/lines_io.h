/* tests/reference/lines_io.h -- lines of weft/io.h: arrays through files. */
/* clang-format off */
STATUS("save", weft_npy_save, 0, weft_npy_save("line.npy", f(0, 2, 3)))
STATUS("load", weft_npy_load, 1,
       weft_npy_save("line.npy", f(0, 2, 3)) || weft_npy_load("line.npy", &out[0]))
STATUS("save_safetensors", weft_safetensors_save, 0,
       weft_safetensors_save("line.safetensors", (const char *[]){"x"}, ARRAYS(f(0, 2, 3)), 1,
                             NULL, 0))
