/* core/io/print.c -- prints arrays: rows, brackets, line breaks, and only the edges of large
 * arrays. */
#include "weft/print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/print_number.h"
#include "core/io/text.h"
#include "core/options.h"
#include "weft/shape.h"

enum { LINE = 1024, WORD = 2 * WEFT__NUMBER_TEXT };

typedef struct printer {
    weft_print_options options;
    weft_dtype dtype;
    weft_dims shape;         /* of the elements that were read */
    bool cut[WEFT_MAX_DIMS]; /* per axis: its middle was left out */
    double *values;          /* floats; complex64: pairs */
    int64_t *integers;       /* integers (uint64 as bits) and bool */
    weft__float_format real, imaginary;
    int width; /* of integers */
    weft__text text;
} printer;

/* ---- one element ---------------------------------------------------------------------------- */

static int integer_text(const printer *p, int64_t value, char *out)
{
    if (p->dtype == WEFT_BOOL) {
        return snprintf(out, WORD, "%*s", p->width, value ? "True" : "False");
    }
    if (p->dtype == WEFT_UINT64) {
        return snprintf(out, WORD, "%*" PRIu64, p->width, (uint64_t)value);
    }
    return snprintf(out, WORD, "%*" PRId64, p->width, value);
}

/* The j comes before the padding. */
static int complex_text(const printer *p, const double *pair, char *out)
{
    char imaginary[WEFT__NUMBER_TEXT + 2];
    int n = weft__float_text(&p->real, pair[0], out);
    int m = weft__float_text(&p->imaginary, pair[1], imaginary);
    int end = m;
    while (end > 0 && imaginary[end - 1] == ' ') {
        end--;
    }
    memmove(imaginary + end + 1, imaginary + end, (size_t)(m - end) + 1);
    imaginary[end] = 'j';
    return n + snprintf(out + n, (size_t)(WORD - n), "%s", imaginary);
}

static void word_of(const printer *p, int64_t index, char *out)
{
    if (p->integers) {
        integer_text(p, p->integers[index], out);
    } else if (p->dtype == WEFT_COMPLEX64) {
        complex_text(p, &p->values[2 * index], out);
    } else {
        weft__float_text(&p->real, p->values[index], out);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The current line; full lines are appended to the text. */
typedef struct line {
    char at[LINE];
    int n, indent; /* indent: columns at the start of every line of the row */
} line;

static void begin_line(line *l)
{
    l->n = l->indent;
    memset(l->at, ' ', (size_t)l->n);
}

static void flush_line(printer *p, line *l)
{
    weft__text_append(&p->text, l->at, (size_t)l->n);
    begin_line(l);
}

static void add_word(printer *p, line *l, const char *word, int width)
{
    int n = (int)strlen(word);
    if (l->n > l->indent && (l->n + n > width || l->n + n + 1 > LINE)) {
        while (l->n > 0 && l->at[l->n - 1] == ' ') {
            l->n--;
        }
        flush_line(p, l);
        weft__text_append(&p->text, "\n", 1);
    }
    if (l->n + n + 1 > LINE) { /* a word longer than a line */
        flush_line(p, l);
        weft__text_append(&p->text, word, (size_t)n);
        return;
    }
    memcpy(l->at + l->n, word, (size_t)n);
    l->n += n;
}

/* Prints the elements of the last axis from index `first`, without the brackets' indent. */
static void print_row(printer *p, int64_t first, int indent, int width)
{
    int axis = p->shape.n - 1;
    int64_t n = p->shape.at[axis];
    line l = {.indent = indent};
    begin_line(&l);
    weft__text_append(&p->text, "[", 1);
    size_t start = p->text.n;
    for (int64_t i = 0; i < n; i++) {
        char word[WORD];
        if (p->cut[axis] && i == n / 2) {
            add_word(p, &l, "... ", width);
            l.at[l.n] = 0;
        }
        word_of(p, first + i, word);
        add_word(p, &l, word, width);
        if (i + 1 < n) {
            l.at[l.n++] = ' ';
        }
    }
    flush_line(p, &l);
    /* Replaces the last column of the first line's indent by the bracket. */
    if (!p->text.failed) {
        memmove(p->text.at + start, p->text.at + start + indent,
                p->text.n - start - (size_t)indent);
        p->text.n -= (size_t)indent;
    }
    weft__text_append(&p->text, "]", 1);
}

static void newlines(printer *p, int count, int indent)
{
    for (int i = 0; i < count; i++) {
        weft__text_append(&p->text, "\n", 1);
    }
    for (int i = 0; i < indent; i++) {
        weft__text_append(&p->text, " ", 1);
    }
}

/* Prints the sub-array at `axis`. Recursion is as deep as the rank. */
static void print_axis(printer *p, int axis, int64_t first, int width)
{
    int left = p->shape.n - axis;
    if (left == 1) {
        print_row(p, first, axis + 1, width);
        return;
    }
    int64_t n = p->shape.at[axis], inner = 1;
    for (int i = axis + 1; i < p->shape.n; i++) {
        inner *= p->shape.at[i];
    }
    weft__text_append(&p->text, "[", 1);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) {
            newlines(p, left - 1, axis + 1);
        }
        if (p->cut[axis] && i == n / 2) {
            weft__text_append(&p->text, "...", 3);
            newlines(p, left - 1, axis + 1);
        }
        print_axis(p, axis + 1, first + i * inner, width - 1);
    }
    weft__text_append(&p->text, "]", 1);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The array without the middle of long axes. */
static weft_array *edges(printer *p, weft_array *a)
{
    int keep = p->options.edge_items;
    for (int axis = 0; axis < weft_ndim(a); axis++) {
        int64_t n = weft_dim(a, axis);
        if (n > 2 * (int64_t)keep) {
            weft_array *ends[] = {weft_slice_axis(a, axis, 0, keep),
                                  weft_slice_axis(a, axis, n - keep, n)};
            a = weft_concatenate(ends, 2, axis);
            p->cut[axis] = true;
        }
    }
    return a;
}

static weft_status read_floats(printer *p, weft_array *a, int64_t n)
{
    p->values = weft_calloc((size_t)(2 * n + 1), sizeof *p->values);
    if (!p->values) {
        return weft__out_of_memory("print", NULL);
    }
    if (p->dtype != WEFT_COMPLEX64) {
        return weft_read(a, WEFT_FLOAT64, p->values, n);
    }
    weft_complex64 *pairs = weft_calloc((size_t)n + 1, sizeof *pairs);
    weft_status status =
        pairs ? weft_read(a, WEFT_COMPLEX64, pairs, n) : weft__out_of_memory("print", NULL);
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        p->values[2 * i] = (double)pairs[i].re;
        p->values[2 * i + 1] = (double)pairs[i].im;
    }
    weft_free(pairs);
    return status;
}

static weft_status read_integers(printer *p, weft_array *a, int64_t n)
{
    p->integers = weft_calloc((size_t)n + 1, sizeof *p->integers);
    if (!p->integers) {
        return weft__out_of_memory("print", NULL);
    }
    return weft_read(a, p->dtype == WEFT_UINT64 ? WEFT_UINT64 : WEFT_INT64, p->integers, n);
}

static void choose_formats(printer *p, int64_t n)
{
    const weft_print_options *o = &p->options;
    for (int64_t i = 0; p->integers && i < n; i++) {
        char word[WORD];
        int width = integer_text(p, p->integers[i], word);
        p->width = width > p->width ? width : p->width;
    }
    bool complex_ = p->dtype == WEFT_COMPLEX64;
    if (p->values) {
        p->real = weft__float_format_of(p->values, n, complex_ ? 2 : 1, p->dtype, o->precision,
                                        o->suppress, false);
    }
    if (complex_) {
        p->imaginary =
            weft__float_format_of(p->values + 1, n, 2, p->dtype, o->precision, o->suppress, true);
    }
    if (p->dtype == WEFT_BOOL && p->shape.n > 0) {
        p->width = 5; /* the width of "False", for every bool array */
    }
}

/* A single number. In a complex number, an integral part is written without ".0". */
static void part_text(double value, char *out)
{
    int n = weft__scalar_text(value, WEFT_FLOAT32, out);
    if (n > 2 && strcmp(out + n - 2, ".0") == 0) {
        out[n - 2] = 0;
    }
}

static void print_scalar(printer *p)
{
    char word[WORD], imaginary[WEFT__NUMBER_TEXT];
    if (p->integers) {
        word_of(p, 0, word);
    } else if (p->dtype == WEFT_COMPLEX64) {
        part_text(p->values[0], word);
        part_text(p->values[1], imaginary);
        bool alone = p->values[0] == 0 && !signbit(p->values[0]);
        const char *plus = imaginary[0] == '-' ? "" : "+";
        weft__text_format(&p->text, alone ? "%s%s%sj" : "(%s%s%sj)", alone ? "" : word,
                          alone ? "" : plus, imaginary);
        return;
    } else {
        weft__scalar_text(p->values[0], p->dtype, word);
    }
    weft__text_append(&p->text, word, strlen(word));
}

static weft_status print_all(printer *p, weft_array *a)
{
    bool summary = weft_size(a) > p->options.threshold;
    a = summary ? edges(p, a) : a;
    p->dtype = weft_dtype_of(a);
    p->shape = weft_shape(a);
    int64_t n = weft_size(a);
    bool whole = p->dtype == WEFT_BOOL || weft_dtype_is_integer(p->dtype);
    weft_status status = whole ? read_integers(p, a, n) : read_floats(p, a, n);
    if (status != WEFT_OK) {
        return status;
    }
    choose_formats(p, n);
    if (n == 0) {
        weft__text_append(&p->text, "[]", 2);
    } else if (p->shape.n == 0) {
        print_scalar(p);
    } else {
        print_axis(p, 0, 0, p->options.line_width - 1);
    }
    return p->text.failed ? weft__out_of_memory("print", NULL) : WEFT_OK;
}

static weft_print_options with_defaults(const weft_print_options *options)
{
    weft_print_options o = options ? *options : (weft_print_options){0};
    o.precision = o.precision > 17 ? 17 : (int)weft__count_or_default(o.precision, 8);
    o.threshold = o.threshold > 0 ? o.threshold : 1000;
    o.edge_items = o.edge_items > 0 ? o.edge_items : 3;
    o.line_width = o.line_width > 0 ? o.line_width : 75;
    return o;
}

char *weft_to_text(weft_array *a, const weft_print_options *options)
{
    printer p = {.options = with_defaults(options)};
    weft_scope_open();
    weft_status status = weft_ok(a) ? print_all(&p, a) : weft__report(a);
    weft_scope_close(NULL);
    weft_free(p.values);
    weft_free(p.integers);
    if (status != WEFT_OK) {
        weft_free(p.text.at);
        return NULL;
    }
    return p.text.at;
}

weft_status weft_print(weft_array *a, FILE *out)
{
    char *text = weft_to_text(a, NULL);
    if (!text) {
        return weft_error_status();
    }
    int written = fprintf(out, "%s\n", text);
    weft_free(text);
    return written < 0 ? weft_fail(WEFT_IO, "print: the text could not be written") : WEFT_OK;
}
