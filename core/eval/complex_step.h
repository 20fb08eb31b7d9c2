/* core/eval/complex_step.h -- evaluates one step of a complex tape with the C library. */
#ifndef CORE_EVAL_COMPLEX_STEP_H
#define CORE_EVAL_COMPLEX_STEP_H

#include <complex.h>

#include "weft/tape.h"

typedef double _Complex weft__wide_complex;

/* A complex number of these parts. Computing re + im * I would turn infinities into NaN. */
weft__wide_complex weft__wide_complex_of(double re, double im);

/* `values` are the tape's values, operands first. */
weft__wide_complex weft__complex_step(const weft_tape_step *step, const weft__wide_complex *values);

#endif
