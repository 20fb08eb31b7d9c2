/* core/compile/explain.c -- weft_compile_explain: describes a compiled function. */
#include <stdio.h>

#include "core/compile/compiled.h"
#include "core/io/text.h"
#include "core/shape.h"

static void add_parameter(weft__text *text, const weft__parameter *p)
{
    if (!p->device) {
        weft__text_format(text, "empty");
        return;
    }
    weft__text_format(text, "%s (", weft_dtype_name(p->spec.dtype));
    for (int d = 0; d < p->spec.shape.n; d++) {
        weft__text_format(text, d ? ", " : "");
        weft__text_format(text, "%s%lld", p->varying >> d & 1 ? "*" : "",
                          (long long)p->spec.shape.at[d]);
    }
    weft__text_format(text, p->spec.shape.n == 1 ? ",)" : ")");
}

static void add_parameters(weft__text *text, const weft_compiled *c, const weft__combination *k)
{
    static const char *const effects[] = {"read", "replaced", "emptied"};
    for (int i = 0; i < k->n_in; i++) {
        weft__text_format(text, "  input %d: ", i);
        add_parameter(text, &k->parameters[i]);
        weft__text_format(text, "\n");
    }
    for (int i = 0; i < c->n_slots; i++) {
        char slot[160];
        weft__slot_text(c, i, slot, sizeof slot);
        weft__text_format(text, "  %s: ", slot);
        add_parameter(text, &k->parameters[k->n_in + i]);
        weft__text_format(text, ", %s\n", effects[k->effects[i]]);
    }
}

/* Constants: arrays that the function captured, which are neither arguments nor state. */
static void add_constants(weft__text *text, const weft__combination *k)
{
    enum { LISTED = 32 };
    int64_t bytes = 0;
    for (int64_t i = 0; i < k->trace.n_constants; i++) {
        bytes += weft_nbytes(k->trace.constants[i]);
    }
    weft__text_format(text, "  captured constants: %lld (%lld bytes)\n",
                      (long long)k->trace.n_constants, (long long)bytes);
    for (int64_t i = 0; i < k->trace.n_constants && i < LISTED; i++) {
        const weft_spec *spec = &k->trace.constants[i]->spec;
        char shape[WEFT_SHAPE_TEXT];
        weft__text_format(text, "    %s %s", weft_dtype_name(spec->dtype),
                          weft__shape_text(&spec->shape, shape));
        if (weft_size(k->trace.constants[i]) == 1 && spec->dtype != WEFT_COMPLEX64) {
            weft__text_format(text, " = %g", weft_item(k->trace.constants[i]));
        }
        weft__text_format(text, "\n");
    }
    if (k->trace.n_constants > LISTED) {
        weft__text_format(text, "    and %lld more\n", (long long)(k->trace.n_constants - LISTED));
    }
}

static void add_variants(weft__text *text, const weft__combination *k)
{
    for (int i = 0; i < k->n_variants; i++) {
        const weft__variant *v = &k->variants[i];
        weft__program_facts f = weft__program_facts_of(v->program);
        weft__text_format(
            text,
            "  plan: %lld nodes, %lld fused into others, %lld kernels; %lld blocks of "
            "%lld bytes in all; %lld inputs overwritten\n",
            (long long)k->trace.n_nodes, (long long)f.fused, (long long)f.steps,
            (long long)f.buffers, (long long)f.bytes, (long long)f.donations);
    }
}

/* The most recently used lengths of a family. */
static void add_family(weft__text *text, const weft_compiled *c, const weft__family *f)
{
    enum { LISTED = 4 };
    int listed = 0;
    for (const weft__combination *k = f->newest; k && listed < LISTED; k = k->older, listed++) {
        weft__text_format(text, "traced: %lld nodes, %lld after simplifying\n",
                          (long long)k->traced, (long long)k->trace.n_nodes);
        add_parameters(text, c, k);
        add_constants(text, k);
        add_variants(text, k);
    }
    if (f->n > listed) {
        weft__text_format(text, "and %d more lengths of the dynamic axes (*)\n", f->n - listed);
    }
}

char *weft_compile_explain(const weft_compiled *c)
{
    weft__text text = {0};
    const weft_compile_counts *n = &c->counts;
    weft__text_format(&text,
                      "%s: %lld calls, %lld inlined in transforms; %lld hits, %lld compiles, %lld "
                      "recompiles, %lld traces, %lld plans, %lld evictions; cache %d of %d\n",
                      c->name, (long long)n->calls, (long long)n->inlined, (long long)n->hits,
                      (long long)n->compiles, (long long)n->recompiles, (long long)n->traces,
                      (long long)n->plans, (long long)n->evictions, c->n_families,
                      c->options.cache);
    int64_t oldest = c->n_reasons > WEFT__REASONS ? c->n_reasons - WEFT__REASONS : 0;
    for (int64_t i = oldest; i < c->n_reasons; i++) {
        weft__text_format(&text, "compiled again: %s\n", c->reasons[i % WEFT__REASONS]);
    }
    for (const weft__family *f = c->newest; f; f = f->older) {
        add_family(&text, c, f);
    }
    return weft__text_take(&text);
}
