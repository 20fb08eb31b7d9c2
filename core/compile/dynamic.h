/* core/compile/dynamic.h -- traces whose integer parameters follow the lengths of dynamic axes. */
#ifndef CORE_COMPILE_DYNAMIC_H
#define CORE_COMPILE_DYNAMIC_H

#include "core/compile/compiled.h"

/* Calls the function at several lengths of the combination's symbols, of which `base` is the first,
 * and fits every integer parameter as a multilinear form of them; one more length checks it. What
 * does not fit leaves the combination without symbols, for this one length, with the reason noted.
 */
weft_status weft__forms_find(weft_compiled *c, weft__combination *k, const weft__trace *base);

/* The trace at these lengths; its constants are the combination's. */
weft_status weft__forms_trace(const weft__combination *k, const int64_t *sizes, weft__trace *out);

void weft__forms_free(weft__forms *forms);

#endif
