/* core/eval/complex_step.h -- a step of a complex tape, by the C library. */
#ifndef CORE_EVAL_COMPLEX_STEP_H
#define CORE_EVAL_COMPLEX_STEP_H

#include <complex.h>

#include "weft/tape.h"

typedef double _Complex weft__wide_complex;

/* The parts as they are: a product with I would make NaN of an infinity. */
weft__wide_complex weft__wide_complex_of(double re, double im);

/* `values` are those of the tape, operands first. */
weft__wide_complex weft__complex_step(const weft_tape_step *step, const weft__wide_complex *values);

#endif
