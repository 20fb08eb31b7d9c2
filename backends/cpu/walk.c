/* backends/cpu/walk.c -- reads strided operands in the order of a row-major output. */
#include "backends/cpu/walk.h"

#include <string.h>

static bool axes_join(const cpu_walk *w, int n, int outer, int inner)
{
    for (int k = 0; k < n; k++) {
        if (w->strides[k][outer] != w->strides[k][inner] * w->shape[inner]) {
            return false;
        }
    }
    return true;
}

void weft__cpu_walk(const weft_tensor *out, const weft_tensor *in, int n, cpu_walk *w)
{
    w->size = weft_tensor_size(out);
    w->n_dims = 0;
    for (int axis = 0; axis < out->shape.n; axis++) {
        if (out->shape.at[axis] == 1) {
            continue;
        }
        w->shape[w->n_dims] = out->shape.at[axis];
        for (int k = 0; k < n; k++) {
            w->strides[k][w->n_dims] = in[k].strides[axis];
        }
        w->n_dims++;
        int inner = w->n_dims - 1, outer = inner - 1;
        if (inner > 0 && axes_join(w, n, outer, inner)) {
            w->shape[outer] *= w->shape[inner];
            for (int k = 0; k < n; k++) {
                w->strides[k][outer] = w->strides[k][inner];
            }
            w->n_dims--;
        }
    }
    if (w->n_dims == 0) {
        w->n_dims = 1;
        w->shape[0] = 1;
        for (int k = 0; k < n; k++) {
            w->strides[k][0] = 1;
        }
    }
}

int64_t weft__cpu_walk_offset(const cpu_walk *walk, int k, int64_t at)
{
    int64_t offset = 0;
    for (int axis = walk->n_dims - 1; axis > 0; axis--) {
        offset += at % walk->shape[axis] * walk->strides[k][axis];
        at /= walk->shape[axis];
    }
    return offset + at * walk->strides[k][0];
}

bool weft__cpu_walk_is_scalar(const cpu_walk *walk, int k)
{
    for (int axis = 0; axis < walk->n_dims; axis++) {
        if (walk->strides[k][axis] != 0) {
            return false;
        }
    }
    return true;
}

bool weft__cpu_walk_is_dense(const cpu_walk *walk, int k)
{
    int64_t stride = 1;
    for (int axis = walk->n_dims - 1; axis >= 0; axis--) {
        if (walk->strides[k][axis] != stride) {
            return false;
        }
        stride *= walk->shape[axis];
    }
    return true;
}

#define DEFINE_RUN(T)                                                                              \
    static void run_##T(const T *from, int64_t stride, T *to, int64_t n)                           \
    {                                                                                              \
        if (stride == 1) {                                                                         \
            memcpy(to, from, (size_t)n * sizeof *to);                                              \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            to[i] = from[i * stride];                                                              \
        }                                                                                          \
    }

DEFINE_RUN(uint8_t)
DEFINE_RUN(uint16_t)
DEFINE_RUN(uint32_t)
DEFINE_RUN(uint64_t)
#undef DEFINE_RUN

/* Copies n elements at intervals of `stride`. */
static void copy_run(const char *from, int64_t stride, size_t size, char *to, int64_t n)
{
    switch (size) {
    case 1:
        run_uint8_t((const uint8_t *)from, stride, (uint8_t *)to, n);
        break;
    case 2:
        run_uint16_t((const void *)from, stride, (void *)to, n);
        break;
    case 4:
        run_uint32_t((const void *)from, stride, (void *)to, n);
        break;
    default:
        run_uint64_t((const void *)from, stride, (void *)to, n);
        break;
    }
}

void weft__cpu_gather(const cpu_walk *walk, int k, const weft_tensor *tensor, int64_t at, int64_t n,
                      void *to)
{
    size_t size = weft_dtype_size(tensor->dtype);
    int last = walk->n_dims - 1;
    const int64_t *strides = walk->strides[k];
    int64_t index[WEFT_MAX_DIMS];
    int64_t rest = at;
    for (int axis = last; axis > 0; axis--) {
        index[axis] = rest % walk->shape[axis];
        rest /= walk->shape[axis];
    }
    index[0] = rest;
    int64_t offset = weft__cpu_walk_offset(walk, k, at);
    char *target = to;
    while (n > 0) {
        int64_t run = walk->shape[last] - index[last];
        run = run < n ? run : n;
        copy_run((const char *)tensor->data + offset * (int64_t)size, strides[last], size, target,
                 run);
        target += (size_t)run * size;
        n -= run;
        /* Advances to the next row, with carries like an odometer. */
        offset += run * strides[last];
        index[last] += run;
        for (int axis = last; axis > 0 && index[axis] == walk->shape[axis]; axis--) {
            offset += strides[axis - 1] - walk->shape[axis] * strides[axis];
            index[axis] = 0;
            index[axis - 1]++;
        }
    }
}

void weft__cpu_walk_splat(void *to, const void *element, size_t size, int64_t n)
{
    copy_run(element, 0, size, to, n);
}
