/* tests/reference/measure.c -- runs a line in every dtype, through every transform, compiled,
 * exported and on a device, and records the results. */
#include "tests/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 14 };

typedef struct subject {
    const line *l;
    line_input inputs[MAX_INPUTS];
    int n;
    line_call call;
    weft_dtype out_dtype[MAX_RESULTS];
    bool known; /* out_dtype is */
} subject;

static bool differentiable(weft_dtype dtype)
{
    return weft_dtype_is_float(dtype) || dtype == WEFT_COMPLEX64;
}

static void say(char *cell, const char *text)
{
    snprintf(cell, CELL, "%s", text);
}

/* The reason from reasons.h, or the library's message. */
static void refuse(const subject *s, const char *column, char *cell)
{
    const char *reason = reason_for(s->l->name, column);
    if (reason != NULL)
        say(cell, reason);
    else
        snprintf(cell, CELL, "no: %.140s", weft_error_message());
    for (char *c = cell; *c != '\0'; c++)
        *c = *c == '|' ? '/' : *c;
}

static void make_inputs(const subject *s, weft_dtype dtype, int64_t length, int seed,
                        weft_array **in)
{
    for (int i = 0; i < s->n; i++)
        in[i] = line_input_array(&s->inputs[i], i, dtype, length, seed);
    if (s->n > 0)
        (void)weft_eval_n(in, s->n); /* named, so that they stay readable; errors propagate */
}

/* Evaluates those that are not NULL together: shared parts are computed once. */
static weft_status evaluate(weft_array *const *arrays, int n)
{
    weft_array *some[MAX_INPUTS + MAX_RESULTS];
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i] != NULL)
            some[found++] = arrays[i];
    }
    return found > 0 ? weft_eval_n(some, found) : WEFT_OK;
}

static int float_inputs(const subject *s)
{
    int floats = 0;
    if (s->call.dtype != WEFT_FLOAT32)
        return 0;
    for (int i = 0; i < s->n; i++)
        floats += input_takes_dtype(s->inputs[i].kind) || s->inputs[i].kind == INPUT_COMPLEX;
    return floats;
}

/* Reads `a` as complex numbers; how many, or -1. */
static int64_t read_pairs(weft_array *a, weft_complex64 *out)
{
    int64_t size = weft_size(a);
    if (weft_eval(a) != WEFT_OK || size > MOST)
        return -1;
    return weft_read(weft_astype(a, WEFT_COMPLEX64), WEFT_COMPLEX64, out, size) == WEFT_OK ? size
                                                                                           : -1;
}

/* The real inner product of two arrays; NaN after a failure. */
static double inner(weft_array *x, weft_array *y)
{
    static weft_complex64 a[MOST], c[MOST];
    int64_t n = read_pairs(x, a);
    if (n < 0 || read_pairs(y, c) != n)
        return NAN;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i].re * (double)c[i].re + (double)a[i].im * (double)c[i].im;
    return sum;
}

static bool close_to(weft_array *x, weft_array *y)
{
    static weft_complex64 a[MOST], c[MOST];
    int64_t n = read_pairs(x, a);
    if (n < 0 || read_pairs(y, c) != n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        double far = hypot((double)(a[i].re - c[i].re), (double)(a[i].im - c[i].im));
        double size = hypot((double)c[i].re, (double)c[i].im);
        if (far > 1e-4 * fmax(1, size))
            return false;
    }
    return true;
}

/* ---- Values and dtypes ---------------------------------------------------------------------- */

static weft_status run(subject *s, weft_dtype dtype)
{
    weft_array *in[MAX_INPUTS], *out[MAX_RESULTS] = {NULL};
    s->call.dtype = dtype;
    make_inputs(s, dtype, DYNAMIC, 0, in);
    if (s->l->n_out == 0) {
        char said[1024];
        return s->l->run(out, said, sizeof said);
    }
    line_function(&s->call, in, s->n, out, s->l->n_out);
    weft_status status = weft_eval_n(out, s->l->n_out);
    for (int i = 0; i < s->l->n_out && status == WEFT_OK && !s->known; i++)
        s->out_dtype[i] = weft_dtype_of(out[i]);
    return status;
}

/* Whether the line has a dtype to choose: it has numbers among its inputs, or T. */
static bool has_dtype(const subject *s)
{
    const char *text = s->l->text;
    for (int i = 0; i < s->n; i++) {
        if (input_takes_dtype(s->inputs[i].kind))
            return true;
    }
    return strstr(text, ", T)") != NULL;
}

static void note_refusal(measured *m, weft_dtype dtype)
{
    char words[WORDS];
    snprintf(words, sizeof words, "%s", weft_error_message());
    char *name = words;
    while ((name = strstr(name, weft_dtype_name(dtype))) != NULL) { /* one sentence for all */
        size_t length = strlen(weft_dtype_name(dtype));
        memmove(name + 3, name + length, strlen(name + length) + 1);
        memcpy(name, "...", 3);
    }
    int i = 0;
    while (i < m->n_refused && strcmp(m->refused[i].words, words) != 0)
        i++;
    if (i == m->n_refused && i < 4) {
        snprintf(m->refused[i].words, WORDS, "%s", words);
        m->n_refused++;
    }
    if (i < m->n_refused)
        m->refused[i].dtypes |= 1U << dtype;
}

static void try_dtypes(subject *s, measured *m)
{
    weft_scope_open();
    weft_dtype own = line_dtype(s->inputs, s->n);
    m->ran = s->known = run(s, own) == WEFT_OK;
    weft_scope_close(NULL);
    if (!has_dtype(s) || s->l->n_out == 0)
        return;
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        weft_scope_open();
        if (run(s, (weft_dtype)d) == WEFT_OK)
            m->dtypes |= 1U << d;
        else
            note_refusal(m, (weft_dtype)d);
        weft_scope_close(NULL);
    }
    s->call.dtype = own;
}

void dtypes_in_words(uint32_t dtypes, char *out, size_t size)
{
    static const struct {
        uint32_t bits;
        const char *name;
    } groups[] = {
        {0x3fff, "all"},    {0x1ffe, "all real"}, {0x3e00, "floats, complex64"},
        {0x1e00, "floats"}, {0x01fe, "integers"}, {0x001e, "unsigned"},
        {0x01e0, "signed"},
    };
    size_t used = 0;
    out[0] = '\0';
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        if ((dtypes & groups[g].bits) == groups[g].bits && used < size) {
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     groups[g].name);
            dtypes &= ~groups[g].bits;
        }
    }
    for (int d = 0; d < WEFT_DTYPE_COUNT && used < size; d++) {
        if (dtypes >> d & 1U)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     weft_dtype_name((weft_dtype)d));
    }
}

/* ---- Derivatives and batches ---------------------------------------------------------------- */

static bool all_zero(weft_array *a)
{
    return inner(a, a) == 0;
}

static weft_array *some_numbers(weft_dims shape)
{
    line_input numbers = {INPUT_NUMBER, 0, shape, -1};
    return line_input_array(&numbers, MAX_INPUTS, WEFT_FLOAT32, 0, 0);
}

/* Gradients along the same directions as tangents: their products with both must agree. */
static void differentiate(subject *s, measured *m)
{
    weft_array *in[MAX_INPUTS], *along[MAX_INPUTS], *cts[MAX_RESULTS] = {NULL};
    weft_array *grads[MAX_INPUTS] = {NULL}, *tangents[MAX_RESULTS] = {NULL}, *outs[MAX_RESULTS];
    int n_out = s->l->n_out;
    make_inputs(s, s->call.dtype, DYNAMIC, 0, in);
    line_function(&s->call, in, s->n, outs, n_out);
    for (int o = 0; o < n_out; o++) {
        if (differentiable(s->out_dtype[o]))
            cts[o] = weft_astype(some_numbers(weft_shape(outs[o])), s->out_dtype[o]);
    }
    for (int i = 0; i < s->n; i++)
        along[i] = differentiable(weft_dtype_of(in[i])) ? weft_scale(in[i], 0.5) : NULL;
    weft_status back = evaluate(along, s->n);
    if (back == WEFT_OK)
        back = evaluate(cts, n_out);
    if (back == WEFT_OK)
        back = weft_vjp(line_function, &s->call, in, s->n, cts, NULL, n_out, grads);
    if (back == WEFT_OK)
        back = evaluate(grads, s->n);
    double backward = 0, forward = 0;
    bool zero = true;
    for (int i = 0; i < s->n && back == WEFT_OK; i++) {
        if (grads[i] == NULL || along[i] == NULL)
            continue;
        backward += inner(grads[i], along[i]);
        zero = zero && all_zero(grads[i]);
    }
    if (back != WEFT_OK)
        refuse(s, "vjp", m->vjp);
    weft_status push = weft_jvp(line_function, &s->call, in, s->n, along, NULL, n_out, tangents);
    if (push == WEFT_OK)
        push = evaluate(tangents, n_out);
    for (int o = 0; o < n_out && push == WEFT_OK; o++) {
        if (tangents[o] == NULL || cts[o] == NULL)
            continue;
        forward += inner(tangents[o], cts[o]);
    }
    if (push != WEFT_OK)
        refuse(s, "jvp", m->jvp);
    if (back != WEFT_OK || push != WEFT_OK) {
        say(back == WEFT_OK ? m->vjp : m->vjp + strlen(m->vjp), back == WEFT_OK ? "yes" : "");
        say(push == WEFT_OK ? m->jvp : m->jvp + strlen(m->jvp), push == WEFT_OK ? "yes" : "");
        return;
    }
    bool agree = fabs(backward - forward) <= 1e-3 * fmax(1, fabs(forward));
    const char *reason = reason_for(s->l->name, "zero");
    const char *word = !agree ? "DISAGREE" : !zero ? "yes" : reason != NULL ? reason : "zero";
    say(m->vjp, word);
    say(m->jvp, word);
}

static void derivatives(subject *s, measured *m)
{
    bool any = false;
    for (int o = 0; o < s->l->n_out; o++)
        any = any || differentiable(s->out_dtype[o]);
    const char *why = float_inputs(s) == 0 ? "no float inputs" : !any ? "result is no float" : NULL;
    if (why != NULL) {
        say(m->vjp, why);
        say(m->jvp, why);
        return;
    }
    weft_scope_open();
    differentiate(s, m);
    weft_scope_close(NULL);
}

static void map(subject *s, measured *m)
{
    weft_array *in[MAX_INPUTS], *one[2][MAX_INPUTS], *outs[MAX_RESULTS];
    weft_array *alone[2][MAX_RESULTS];
    if (s->n == 0) {
        say(m->vmap, "no array inputs");
        return;
    }
    weft_scope_open();
    for (int e = 0; e < 2; e++)
        make_inputs(s, s->call.dtype, DYNAMIC, e, one[e]);
    for (int i = 0; i < s->n; i++)
        in[i] = weft_stack((weft_array *[]){one[0][i], one[1][i]}, 2, 0);
    (void)evaluate(in, s->n);
    weft_status status =
        weft_vmap(line_function, &s->call, in, NULL, s->n, outs, NULL, s->l->n_out);
    if (status == WEFT_OK)
        status = weft_eval_n(outs, s->l->n_out);
    bool same = true;
    for (int e = 0; e < 2 && status == WEFT_OK; e++) {
        line_function(&s->call, one[e], s->n, alone[e], s->l->n_out);
        status = weft_eval_n(alone[e], s->l->n_out);
        for (int o = 0; o < s->l->n_out; o++) {
            weft_array *dense = weft_decode(outs[o]);
            weft_array *part = weft_squeeze(weft_slice_axis(dense, 0, e, e + 1), 0);
            same = same && close_to(part, alone[e][o]);
        }
    }
    if (status != WEFT_OK)
        refuse(s, "vmap", m->vmap);
    else
        say(m->vmap, same ? "yes" : "DISAGREE");
    weft_scope_close(NULL);
}

/* ---- Compiled, exported, on a device -------------------------------------------------------- */

/* One compilation, called with two lengths that it was not traced at. */
static weft_status call_lengths(subject *s, weft_compiled *compiled, bool *same)
{
    weft_status status = WEFT_OK;
    static const int64_t lengths[] = {7, 11};
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        weft_array *in[MAX_INPUTS], *outs[MAX_RESULTS], *expected[MAX_RESULTS];
        weft_scope_open();
        make_inputs(s, s->call.dtype, lengths[i], 0, in);
        status = weft_compiled_call(compiled, in, s->n, outs, s->l->n_out);
        if (status == WEFT_OK)
            line_function(&s->call, in, s->n, expected, s->l->n_out);
        if (status == WEFT_OK)
            status = weft_eval_n(expected, s->l->n_out);
        for (int o = 0; o < s->l->n_out && status == WEFT_OK; o++)
            *same = *same && close_to(outs[o], expected[o]);
        weft_scope_close(NULL);
    }
    return status;
}

static void shapeless(subject *s, measured *m)
{
    uint32_t dynamic[MAX_INPUTS] = {0};
    bool any = false, same = true;
    for (int i = 0; i < s->n; i++) {
        dynamic[i] = s->inputs[i].dynamic >= 0 ? 1U << s->inputs[i].dynamic : 0;
        any = any || dynamic[i] != 0;
    }
    if (!any) {
        const char *reason = reason_for(s->l->name, "shapeless");
        say(m->shapeless, reason != NULL ? reason
                          : s->n == 0    ? "no array inputs"
                                         : "line of fixed shape");
        return;
    }
    weft_compiled *compiled = NULL;
    weft_compile_options options = {.dynamic = dynamic, .n_dynamic = s->n};
    weft_status status = weft_compile(line_function, &s->call, NULL, 0, &options, &compiled);
    if (status == WEFT_OK)
        status = call_lengths(s, compiled, &same);
    weft_compile_counts counts = {0};
    if (compiled != NULL)
        counts = weft_compiled_counts(compiled);
    if (status != WEFT_OK)
        refuse(s, "shapeless", m->shapeless);
    else if (!same)
        say(m->shapeless, "DISAGREE");
    else if (counts.compiles != 1)
        refuse(s, "shapeless", m->shapeless);
    else
        say(m->shapeless, "yes");
    weft_compiled_free(compiled);
}

static bool same_bytes(weft_array *x, weft_array *y)
{
    if (weft_encoding_of(x) != weft_encoding_of(y))
        return false;
    x = weft_contiguous(weft_decode(x));
    y = weft_contiguous(weft_decode(y));
    const void *a = weft_data(x), *c = weft_data(y);
    return a != NULL && c != NULL && weft_nbytes(x) == weft_nbytes(y) &&
           weft_dtype_of(x) == weft_dtype_of(y) && memcmp(a, c, (size_t)weft_nbytes(x)) == 0;
}

static void exported(subject *s, const char *folder, measured *m)
{
    weft_array *in[MAX_INPUTS], *outs[MAX_RESULTS], *again[MAX_RESULTS];
    weft_imported *imported = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/line.export", folder);
    weft_scope_open();
    make_inputs(s, s->call.dtype, DYNAMIC, 0, in);
    weft_status status = weft_export(path, line_function, &s->call, in, s->n);
    if (status == WEFT_OK)
        status = weft_import(path, &imported);
    if (status == WEFT_OK) {
        weft_imported_call(imported, NULL, in, s->n, again, s->l->n_out);
        status = weft_eval_n(again, s->l->n_out);
    }
    bool same = true;
    if (status == WEFT_OK) {
        line_function(&s->call, in, s->n, outs, s->l->n_out);
        status = weft_eval_n(outs, s->l->n_out);
        for (int o = 0; o < s->l->n_out; o++)
            same = same && same_bytes(outs[o], again[o]);
    }
    if (status != WEFT_OK)
        refuse(s, "exported", m->exported);
    else
        say(m->exported, same ? "yes" : "DISAGREE");
    weft_imported_free(imported);
    weft_scope_close(NULL);
    remove(path);
}

static void on_device(subject *s, weft_device *device, measured *m)
{
    weft_device *before = weft_default_device();
    weft_array *in[MAX_INPUTS], *outs[MAX_RESULTS];
    weft_scope_open();
    weft_set_default_device(device);
    make_inputs(s, s->call.dtype, DYNAMIC, 0, in);
    weft_status status = s->n > 0 ? weft_eval_n(in, s->n) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_device_profile(device, true);
    weft_device_reset_counts(device);
    line_function(&s->call, in, s->n, outs, s->l->n_out);
    if (status == WEFT_OK)
        status = weft_eval_n(outs, s->l->n_out);
    weft_op_report reports[64];
    int n = weft_device_report(device, reports, 64, NULL);
    if (status != WEFT_OK) {
        refuse(s, "vulkan", m->vulkan);
    } else {
        size_t used = 0;
        for (int i = 0; i < n && used < CELL; i++) {
            if (reports[i].ran.references > 0)
                used += (size_t)snprintf(m->vulkan + used, CELL - used, "%s%s",
                                         used > 0 ? ", " : "host: ", reports[i].op);
        }
        if (used == 0)
            say(m->vulkan, "yes");
    }
    if (weft_device_profile(device, false) != WEFT_OK)
        refuse(s, "vulkan", m->vulkan);
    weft_set_default_device(before);
    weft_scope_close(NULL);
}

void measure(const line *l, weft_device *vulkan, const char *folder, measured *out)
{
    subject s = {.l = l};
    memset(out, 0, sizeof *out);
    s.n = line_inputs(l, s.inputs);
    if (s.n < 0)
        return;
    s.call = (line_call){l, s.inputs, line_dtype(s.inputs, s.n)};
    try_dtypes(&s, out);
    if (!out->ran)
        return;
    if (l->n_out == 0 || strcmp(l->header, "io") == 0) {
        const char *why = reason_for(l->name, "all");
        char *cells[] = {out->vjp, out->jvp, out->vmap, out->shapeless, out->exported, out->vulkan};
        for (int i = 0; i < 6; i++)
            say(cells[i], why != NULL ? why : "no function of arrays");
        return;
    }
    derivatives(&s, out);
    map(&s, out);
    shapeless(&s, out);
    exported(&s, folder, out);
    if (vulkan != NULL)
        on_device(&s, vulkan, out);
}
