/* backends/cpu/move.c -- copies of strided elements, divided into runs for the workers. */
#include "backends/cpu/move.h"

#include <string.h>

#include "backends/cpu/pool.h"

enum { GRAIN_BYTES = 1 << 16 };

typedef struct move {
    int64_t size;
    const char *from;
    char *to;
    int n;                       /* axes outside of the innermost */
    int64_t dims[WEFT_MAX_DIMS]; /* merged where both sides are contiguous */
    int64_t from_strides[WEFT_MAX_DIMS], to_strides[WEFT_MAX_DIMS];
    int64_t run, from_step, to_step; /* the innermost axis */
} move;

#define MOVE_RUN(T)                                                                                \
    do {                                                                                           \
        const T *f = (const T *)from;                                                              \
        T *t = (T *)to;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i * to_step] = f[i * from_step];                                                     \
    } while (0)

static void move_run(int64_t size, int64_t n, const void *from, int64_t from_step, void *to,
                     int64_t to_step)
{
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1:
        MOVE_RUN(uint8_t);
        break;
    case 2:
        MOVE_RUN(uint16_t);
        break;
    case 4:
        MOVE_RUN(uint32_t);
        break;
    default:
        MOVE_RUN(uint64_t);
    }
}

#undef MOVE_RUN

static void move_runs(void *context, int64_t begin, int64_t end, int worker)
{
    const move *m = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, from = 0, to = 0;
        for (int d = m->n - 1; d >= 0; d--) {
            from += rest % m->dims[d] * m->from_strides[d];
            to += rest % m->dims[d] * m->to_strides[d];
            rest /= m->dims[d];
        }
        move_run(m->size, m->run, m->from + from * m->size, m->from_step, m->to + to * m->size,
                 m->to_step);
    }
}

/* Copies a part of a long run. */
static void move_part(void *context, int64_t begin, int64_t end, int worker)
{
    const move *m = context;
    (void)worker;
    move_run(m->size, end - begin, m->from + begin * m->from_step * m->size, m->from_step,
             m->to + begin * m->to_step * m->size, m->to_step);
}

/* Adds an axis inside the existing ones; merges it with the last if both sides allow. */
static void add_axis(move *m, int64_t dim, int64_t from_stride, int64_t to_stride)
{
    int last = m->n - 1;
    if (dim == 1) {
        return;
    }
    if (m->n > 0 && m->from_strides[last] == from_stride * dim &&
        m->to_strides[last] == to_stride * dim) {
        m->dims[last] *= dim;
    } else {
        last = m->n++;
        m->dims[last] = dim;
    }
    m->from_strides[last] = from_stride;
    m->to_strides[last] = to_stride;
}

void weft__cpu_move(const weft_dims *shape, int64_t size, const void *from,
                    const int64_t *from_strides, void *to, const int64_t *to_strides)
{
    move m = {.size = size, .from = from, .to = to, .run = 1, .from_step = 1, .to_step = 1};
    int64_t runs = 1;
    for (int d = 0; d < shape->n; d++) {
        if (shape->at[d] == 0) {
            return;
        }
        add_axis(&m, shape->at[d], from_strides[d], to_strides[d]);
    }
    if (m.n > 0) {
        m.n--;
        m.run = m.dims[m.n];
        m.from_step = m.from_strides[m.n];
        m.to_step = m.to_strides[m.n];
    }
    for (int d = 0; d < m.n; d++) {
        runs *= m.dims[d];
    }
    if (runs == 1) {
        weft__cpu_parallel(m.run, GRAIN_BYTES / size, move_part, &m);
    } else {
        weft__cpu_parallel(runs, GRAIN_BYTES / (m.run * size), move_runs, &m);
    }
}

void weft__cpu_put(const weft_tensor *part, const weft_tensor *whole, const int64_t *first,
                   const int64_t *steps)
{
    int64_t size = (int64_t)weft_dtype_size(part->dtype), start = 0, strides[WEFT_MAX_DIMS];
    for (int d = 0; d < whole->shape.n; d++) {
        start += first[d] * whole->strides[d];
        strides[d] = whole->strides[d] * (steps ? steps[d] : 1);
    }
    weft__cpu_move(&part->shape, size, part->data, part->strides,
                   (char *)whole->data + start * size, strides);
}

void weft__cpu_repeat(void *to, int64_t n, int64_t size, const void *value)
{
    weft_dims shape = {.n = 1, .at = {n}};
    weft__cpu_move(&shape, size, value, (const int64_t[]){0}, to, (const int64_t[]){1});
}
