/* tests/nn/against.h -- functions and modules against PyTorch's values and gradients. The golden
 * file (support/golden.h) holds for each case "case/in0", ..., "case/out0", the cotangent "case/ct"
 * and "case/grad0", ...; of modules also "case/param/PATH" and "case/grad/PATH". Without a
 * cotangent only values are compared. */
#ifndef TESTS_NN_AGAINST_H
#define TESTS_NN_AGAINST_H

#include "weft/nn.h"
#include "weft/transforms.h"

/* Calls the function of the case's inputs in float32, to `tolerance`, and in float64, to 1e-10. */
void against_function(const char *name, weft_array *(*f)(weft_array *const *in), double tolerance);

/* Sets the module's parameters to those of the case, and compares y = f(m, in) in both precisions.
 * NULL f: weft_nn_call. Frees the module. Parameters without a gradient have none in the file. */
void against_module(const char *name, weft_module *m,
                    weft_array *(*f)(weft_module *m, weft_array *const *in), double tolerance);
/* The same in float32 only. */
void against_module_single(const char *name, weft_module *m,
                           weft_array *(*f)(weft_module *m, weft_array *const *in),
                           double tolerance);

#endif
