/* tests/reference/write_reference.c -- docs/reference/: the declarations of each header with its
 * comments, and under them the lines and their results. */
#include "tests/reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const reference_headers[] = {
    "array",        "creation",   "elementwise", "shape",    "indexing", "reduce",    "products",
    "conv",         "linalg",     "fft",         "random",   "neural",   "quantize",  "activations",
    "losses",       "init",       "optim",       "nn",       "layers",   "nn_tools",  "dtype",
    "print",        "transforms", "compile",     "export",   "io",       "dlpack",    "memory",
    "status",       "op",         "op_params",   "backend",  "tape",     "model",     "generate",
    "batch",        "inspect",    "tokenizer",   "train",    "adapter",  "objective", "ops",
    "version",      "stream",     "vulkan",      "cancel",   "probe",    "constrain", "cache",
    "prompt_cache", "state",      "chat",        "session",  "engine",   "hub",       "bench",
    "gguf",         "convert",    "group",       "timeline", "task",     "device",    "retrieval",
    "reward",       NULL,
};

/* Last digits differ from machine to machine: numbers are rounded to four decimals, and -0 is shown
 * as 0. */
static weft_array *rounded(weft_array *a)
{
    enum { MOST = 4096 };
    static weft_complex64 pairs[MOST];
    static double values[MOST];
    weft_dtype dtype = weft_dtype_of(a);
    int64_t size = weft_size(a);
    if (size > MOST)
        return a;
    if (dtype == WEFT_COMPLEX64) {
        if (weft_read(a, WEFT_COMPLEX64, pairs, size) != WEFT_OK)
            return a;
        for (int64_t i = 0; i < size; i++) {
            pairs[i].re = roundf(pairs[i].re * 1e4F) / 1e4F + 0.0F;
            pairs[i].im = roundf(pairs[i].im * 1e4F) / 1e4F + 0.0F;
        }
        return weft_from_data(pairs, WEFT_COMPLEX64, weft_shape(a));
    }
    if (!weft_dtype_is_float(dtype) || weft_read(a, WEFT_FLOAT64, values, size) != WEFT_OK)
        return a;
    for (int64_t i = 0; i < size; i++) {
        if (isfinite(values[i]))
            values[i] = round(values[i] * 1e4) / 1e4 + 0.0;
    }
    return weft_astype(weft_from_data(values, WEFT_FLOAT64, weft_shape(a)), dtype);
}

static void show_array(FILE *file, weft_array *a)
{
    weft_dims shape = weft_shape(a);
    fprintf(file, "%s (", weft_dtype_name(weft_dtype_of(a)));
    for (int d = 0; d < shape.n; d++)
        fprintf(file, d > 0 ? ", %lld" : "%lld", (long long)shape.at[d]);
    weft_print_options options = {.precision = 4, .suppress = true, .threshold = 50};
    char *text = weft_to_text(rounded(a), &options);
    fprintf(file, ")\n%s\n", text != NULL ? text : weft_error_message());
    weft_free(text);
}

static void show_line(FILE *file, const line *l)
{
    line_input inputs[MAX_INPUTS];
    weft_array *out[MAX_RESULTS] = {NULL}, *in[MAX_INPUTS];
    char said[1024] = "";
    int n = line_inputs(l, inputs);
    fprintf(file, "```c\n%s\n```\n", l->text);
    if (n < 0)
        return;
    weft_scope_open();
    if (l->n_out == 0) {
        l->run(out, said, sizeof said);
    } else {
        line_call call = {l, inputs, line_dtype(inputs, n)};
        for (int i = 0; i < n; i++)
            in[i] = line_input_array(&inputs[i], i, call.dtype, DYNAMIC, 0);
        line_function(&call, in, n, out, l->n_out);
    }
    if (said[0] != '\0' || l->n_out > 0)
        fputs("```text\n", file);
    fputs(said, file);
    for (int i = 0; i < l->n_out; i++)
        show_array(file, out[i]);
    if (said[0] != '\0' || l->n_out > 0)
        fprintf(file, "%s```\n", said[0] != '\0' && said[strlen(said) - 1] != '\n' ? "\n" : "");
    weft_scope_close(NULL);
}

/* The lines of the functions that a piece of a header declares. */
static void show_lines(FILE *file, const char *piece)
{
    for (const char *at = piece; (at = strstr(at, "weft_")) != NULL;) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
        bool declares = at > piece && (at[-1] == '*' || at[-1] == ' ') && at[length] == '(';
        for (int i = 0; i < line_count() && declares; i++) {
            const line *l = line_at(i);
            if (strlen(l->name) == length && strncmp(l->name, at, length) == 0) {
                fputs("\n", file);
                show_line(file, l);
            }
        }
        at += length;
    }
}

/* Copies a comment's text, without its marks. */
static void show_prose(FILE *file, const char *from, const char *to)
{
    while (from < to) {
        const char *end = memchr(from, '\n', (size_t)(to - from));
        end = end != NULL ? end : to;
        const char *start = from + strspn(from, " ");
        if (strncmp(start, "/*", 2) == 0 || strncmp(start, "*/", 2) == 0)
            start += 2;
        else if (*start == '*')
            start++;
        const char *last = end;
        if (last - start >= 2 && strncmp(last - 2, "*/", 2) == 0)
            last -= 2;
        if (*start == ' ' && start < last)
            start++;
        while (last > start && last[-1] == ' ')
            last--;
        if (last > start || end < to)
            fprintf(file, "%.*s\n", (int)(last > start ? last - start : 0), start);
        from = end + 1;
    }
}

static bool is_rule(const char *piece) /* a section's title */
{
    return strncmp(piece, "/* ----", 7) == 0;
}

static bool declares(const char *piece)
{
    static const char *const signs[] = {"WEFT_API", "typedef", "enum", "#define ", "static inline"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (strstr(piece, signs[i]) != NULL)
            return true;
    }
    return strstr(piece, "struct ") != NULL && strchr(piece, '{') != NULL;
}

/* A piece of a header: the text between two empty lines, or from a comment on. */
static void show_piece(FILE *file, const char *piece)
{
    if (is_rule(piece)) {
        const char *title = piece + strspn(piece, "/*- ");
        const char *end = strstr(title, " --");
        fprintf(file, "\n## %.*s\n", (int)(end != NULL ? end - title : 0), title);
        return;
    }
    if (!declares(piece))
        return;
    fprintf(file, "\n```c\n%s```\n", piece);
    show_lines(file, piece);
}

/* Where the piece that begins at `at` ends: at an empty line outside of braces, or where a comment
 * begins a line after a declaration. */
static char *piece_end(char *at)
{
    int depth = 0;
    bool comment = strncmp(at, "/*", 2) == 0, declared = false;
    while (*at != '\0') {
        char *end = strchr(at, '\n');
        if (end == NULL)
            return at + strlen(at);
        if (!comment && depth == 0 && strncmp(at, "/*", 2) == 0 && declared)
            return at;
        bool inside = comment || strncmp(at, "/*", 2) == 0;
        comment = inside && (strstr(at, "*/") == NULL || strstr(at, "*/") > end);
        for (char *c = at; c < end && !inside; c++)
            depth += (*c == '{') - (*c == '}');
        declared = declared || !inside;
        at = end + 1;
        if (*at == '\n' && depth == 0 && !comment)
            return at;
    }
    return at;
}

weft_status write_reference(const char *header, const char *source_root, const char *path)
{
    char name[512];
    char *text = NULL;
    snprintf(name, sizeof name, "%s/include/weft/%s.h", source_root, header);
    weft_status status = weft_file_read(name, 0, &text, NULL);
    if (status != WEFT_OK)
        return status;
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        weft_free(text);
        return weft_fail(WEFT_IO, "%s: cannot be written", path);
    }
    fprintf(file, "# weft/%s.h\n\n", header);
    char *intro = strstr(text, "*/");
    show_prose(file, strstr(text, "-- ") + 3, intro != NULL ? intro + 2 : text);
    char *at = strstr(text, "extern \"C\" {\n#endif\n");
    at = at != NULL ? at + strlen("extern \"C\" {\n#endif\n") : intro;
    while (*at != '\0' && strncmp(at, "#ifdef __cplusplus", 18) != 0) {
        if (*at == '\n') {
            at++;
            continue;
        }
        char *end = piece_end(at), kept = *end;
        *end = '\0';
        show_piece(file, at);
        *end = kept;
        at = end;
    }
    weft_free(text);
    return fclose(file) == 0 ? WEFT_OK : weft_fail(WEFT_IO, "%s: cannot be written", path);
}

weft_status write_reference_list(const char *source_root, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return weft_fail(WEFT_IO, "%s: cannot be written", path);
    fputs("# Reference\n\n"
          "[functions.md](functions.md) lists all functions in the order of the alphabet.\n\n"
          "The public headers, one page each: their contracts word for word, and for functions of\n"
          "arrays a line that runs, with what it gives. In the lines `f(0, 2, 3)` is an array of\n"
          "numbers, shape (2, 3), the first of the line, and `f0(0)` one without axes; `p` is one\n"
          "of positive numbers, `u` of numbers between 0 and 1, `w` of whole numbers, `m` a\n"
          "well-conditioned square matrix, `z` of complex numbers, `b` of bool, `n(1, 4, 3)` of "
          "three indices below 4,\n"
          "`k(0)` a random key. `N` is 3, `T` is `WEFT_FLOAT32`, `ARRAYS(a, c)` a C array of\n"
          "arrays, and `out` where results go. Floats are shown to four decimals. The pages are\n"
          "made by `build/tests/write_reference docs`.\n\n",
          file);
    for (int i = 0; reference_headers[i] != NULL; i++) {
        char name[512], *text = NULL;
        snprintf(name, sizeof name, "%s/include/weft/%s.h", source_root, reference_headers[i]);
        if (weft_file_read(name, 0, &text, NULL) != WEFT_OK)
            continue;
        char *start = strstr(text, "-- ");
        size_t length = start != NULL ? strcspn(start + 3, ".\n") : 0;
        fprintf(file, "- [weft/%s.h](%s.md): %.*s\n", reference_headers[i], reference_headers[i],
                (int)length, start != NULL ? start + 3 : "");
        weft_free(text);
    }
    return fclose(file) == 0 ? WEFT_OK : weft_fail(WEFT_IO, "%s: cannot be written", path);
}
