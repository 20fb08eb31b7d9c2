/* tests/reference/lines.c -- the table of lines, and the meaning of the names in them. */
#include "tests/reference/reference.h"

#include <stdio.h>
#include <string.h>

/* The inputs while a line runs. */
static struct {
    bool learning;            /* the line runs to learn its inputs */
    weft_array *const *given; /* the arrays of a transform; NULL: made here */
    int64_t length;           /* N */
    weft_dtype dtype;         /* T, and the dtype of numbers */
    line_input inputs[MAX_INPUTS];
    int n;
} now;

bool input_takes_dtype(input_kind kind)
{
    return kind <= INPUT_WHOLE;
}

weft_dtype line_dtype(const line_input *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        if (inputs[i].kind == INPUT_WHOLE)
            return WEFT_INT32;
    }
    return WEFT_FLOAT32;
}

/* Element k of input i: no two of 16 neighbors are equal. */
static double element(const line_input *input, int i, int64_t k, int seed)
{
    int m = (int)((k * 7 + (int64_t)i * 5 + (int64_t)seed * 3 + 3) % 16);
    switch (input->kind) {
    case INPUT_NUMBER:
        return (2 * m - 15) / 8.0;
    case INPUT_POSITIVE:
        return (m + 1) / 4.0;
    case INPUT_UNIT:
        return (2 * m + 1) / 32.0;
    case INPUT_MATRIX: {
        int64_t n = input->shape.at[input->shape.n - 1];
        return (2 * m - 15) / 8.0 + (k % n == k / n % n ? 2.0 * (double)n : 0);
    }
    case INPUT_WHOLE:
        return m % 8;
    case INPUT_MASK:
        return m % 3 != 0;
    case INPUT_INDEX:
        return (double)(m % input->below);
    default:
        return (2 * m - 15) / 8.0;
    }
}

weft_array *line_input_array(const line_input *input, int i, weft_dtype dtype, int64_t length,
                             int seed)
{
    enum { MOST = 4096 };
    static double values[2 * MOST];
    weft_dims shape = input->shape;
    if (input->dynamic >= 0)
        shape.at[input->dynamic] = length;
    int64_t size = 1;
    for (int d = 0; d < shape.n; d++)
        size *= shape.at[d];
    if (input->kind == INPUT_KEY) {
        weft_array *key = weft_random_key((uint64_t)(i + seed));
        return shape.n == 1 ? key : weft_random_split(key, shape.at[0]);
    }
    if (size > MOST)
        return weft_error_array("an input of more than %d elements", MOST);
    for (int64_t k = 0; k < 2 * size; k++)
        values[k] = element(input, i, k, seed);
    weft_array *x = weft_from_data(values, WEFT_FLOAT64, shape);
    if (input->kind == INPUT_COMPLEX) {
        static weft_complex64 pairs[MOST];
        for (int64_t k = 0; k < size; k++)
            pairs[k] = (weft_complex64){(float)values[2 * k], (float)values[2 * k + 1]};
        return weft_from_data(pairs, WEFT_COMPLEX64, shape);
    }
    if (input->kind == INPUT_MASK)
        return weft_astype(x, WEFT_BOOL);
    return weft_astype(x, input->kind == INPUT_INDEX ? WEFT_INT32 : dtype);
}

static weft_array *input(input_kind kind, int i, int64_t below, weft_dims shape)
{
    line_input what = {kind, below, shape, -1};
    if (now.learning) {
        now.inputs[i] = what;
        now.n = i >= now.n ? i + 1 : now.n;
    }
    return now.given != NULL ? now.given[i] : line_input_array(&what, i, now.dtype, 0, 0);
}

int line_inputs(const line *l, line_input *inputs)
{
    weft_array *out[MAX_RESULTS] = {NULL};
    line_input longer[MAX_INPUTS];
    char said[1024] = "";
    memset(&now, 0, sizeof now);
    now.learning = true;
    now.dtype = WEFT_FLOAT32;
    now.length = DYNAMIC + 1;
    weft_scope_open();
    weft_status status = l->run(out, said, sizeof said);
    memcpy(longer, now.inputs, sizeof longer);
    now.length = DYNAMIC;
    if (status == WEFT_OK)
        status = l->run(out, said, sizeof said);
    weft_scope_close(NULL);
    now.learning = false;
    memcpy(inputs, now.inputs, sizeof now.inputs);
    for (int i = 0; i < now.n; i++) {
        inputs[i].dynamic = -1;
        for (int d = 0; d < inputs[i].shape.n; d++) {
            if (inputs[i].shape.at[d] != longer[i].shape.at[d])
                inputs[i].dynamic = d;
        }
    }
    return status == WEFT_OK ? now.n : -1;
}

int line_function(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const line_call *call = context;
    const int n = call->l->n_out;
    char said[1024];
    (void)room; /* no line has more results than WEFT_RESULT_ROOM */
    weft_array *made[MAX_RESULTS] = {NULL};
    now.given = in;
    now.dtype = call->dtype;
    now.length = DYNAMIC;
    for (int i = 0; i < n_in; i++) {
        if (call->inputs[i].dynamic >= 0)
            now.length = weft_dim(in[i], call->inputs[i].dynamic);
    }
    weft_status status = call->l->run(made, said, sizeof said);
    now.given = NULL;
    for (int i = 0; i < n; i++)
        out[i] = status == WEFT_OK ? made[i] : weft_error_array("%s", weft_error_message());
    return n;
}

/* ---- Functions used in lines ---------------------------------------------------------------- */

#define f(i, ...) input(INPUT_NUMBER, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define f0(i) input(INPUT_NUMBER, (i), 0, WEFT_SCALAR)
#define p(i, ...) input(INPUT_POSITIVE, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define u(i, ...) input(INPUT_UNIT, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define m(i, ...) input(INPUT_MATRIX, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define w(i, ...) input(INPUT_WHOLE, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define z(i, ...) input(INPUT_COMPLEX, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define b(i, ...) input(INPUT_MASK, (i), 0, WEFT_DIMS(__VA_ARGS__))
#define n(i, below, ...) input(INPUT_INDEX, (i), (below), WEFT_DIMS(__VA_ARGS__))
#define n0(i, below) input(INPUT_INDEX, (i), (below), WEFT_SCALAR)
#define k(i) input(INPUT_KEY, (i), 0, WEFT_DIMS(2))
#define N now.length
#define T now.dtype
#define ARRAYS(...) ((weft_array *[]){__VA_ARGS__})
#define NO_AXES ((weft_dims){0})

/* First the functions, then the table. */
#define LINE(mlx, function, ...)                                                                   \
    static weft_status run_##function(weft_array **out, char *said, size_t size)                   \
    {                                                                                              \
        (void)said, (void)size;                                                                    \
        out[0] = __VA_ARGS__;                                                                      \
        return WEFT_OK;                                                                            \
    }
#define FILLS(mlx, function, results, ...)                                                         \
    static weft_status run_##function(weft_array **out, char *said, size_t size)                   \
    {                                                                                              \
        (void)out, (void)said, (void)size;                                                         \
        __VA_ARGS__;                                                                               \
        return WEFT_OK;                                                                            \
    }
#define STATUS(mlx, function, results, ...)                                                        \
    static weft_status run_##function(weft_array **out, char *said, size_t size)                   \
    {                                                                                              \
        (void)out, (void)said, (void)size;                                                         \
        return __VA_ARGS__;                                                                        \
    }
#include "tests/reference/all_lines.h"
#undef LINE
#undef FILLS
#undef STATUS

#define LINE(mlx, function, ...) {HEADER, mlx, #function, #__VA_ARGS__, 1, run_##function},
#define FILLS(mlx, function, results, ...)                                                         \
    {HEADER, mlx, #function, #__VA_ARGS__, results, run_##function},
#define STATUS FILLS
static const line lines[] = {
#include "tests/reference/all_lines.h"
};

int line_count(void)
{
    return (int)(sizeof lines / sizeof *lines);
}

const line *line_at(int i)
{
    return &lines[i];
}
