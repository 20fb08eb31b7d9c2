/* tests/reference/lines_transforms.h -- lines of weft/transforms.h that are functions of arrays. */
/* clang-format off */
LINE("stop_gradient", weft_stop_gradient, weft_stop_gradient(f(0, N)))
LINE("", weft_checkpoint_name, weft_checkpoint_name(f(0, N), "hidden"))
FILLS("depends", weft_depends, 1, weft_depends(ARRAYS(f(0, N)), 1, ARRAYS(f(1, 2)), 1, out))
