/* backends/cpu/convert.c -- copies of strided tensors with conversion, and the table of conversion
 * functions. */
#include "backends/cpu/backend.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/walk.h"

#include <pthread.h>
#include <string.h>

/* ---- The conversion functions ---------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_elementwise_table table;

void weft__cpu_elementwise_use(cpu_isa isa)
{
    CPU_FILL(weft__fill_elementwise, &table, isa);
    CPU_FILL(weft__fill_convert, &table, isa);
    CPU_FILL(weft__fill_elementwise_run, &table, isa);
}

static void fill(void)
{
    weft__cpu_elementwise_use(weft__cpu_isa());
}

const cpu_elementwise_table *weft__cpu_elementwise_table(void)
{
    pthread_once(&once, fill);
    return &table;
}

/* ---- Copies --------------------------------------------------------------------------------- */

enum { TILE = 32 };

typedef struct copy_job {
    cpu_walk walk;
    const weft_tensor *in;
    char *out;
    size_t in_size, out_size;
    cpu_convert *convert; /* NULL: the same dtype */
    int across;           /* for a transpose: the axis along which the input is contiguous */
    int64_t across_tiles;
} copy_job;

static void put(const copy_job *job, const void *from, int64_t at, int64_t n)
{
    char *to = job->out + (size_t)at * job->out_size;
    if (job->convert) {
        job->convert(from, to, n);
    } else {
        memcpy(to, from, (size_t)n * job->out_size);
    }
}

static void copy_dense(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const copy_job *job = context;
    put(job, (const char *)job->in->data + (size_t)begin * job->in_size, begin, end - begin);
}

static void copy_strided(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const copy_job *job = context;
    if (!job->convert) {
        weft__cpu_gather(&job->walk, 0, job->in, begin, end - begin,
                         job->out + (size_t)begin * job->out_size);
        return;
    }
    _Alignas(64) char block[CPU_BLOCK * 8];
    for (int64_t at = begin; at < end; at += CPU_BLOCK) {
        int64_t n = end - at < CPU_BLOCK ? end - at : CPU_BLOCK;
        weft__cpu_gather(&job->walk, 0, job->in, at, n, block);
        put(job, block, at, n);
    }
}

/* Copies columns of the input to rows of TILE elements; within a tile both sides are accessed in
 * memory order. */
#define DEFINE_TILE(T)                                                                             \
    static void tile_##T(const T *from, int64_t stride, T *to, int64_t rows, int64_t columns)      \
    {                                                                                              \
        for (int64_t j = 0; j < columns; j++) {                                                    \
            for (int64_t i = 0; i < rows; i++) {                                                   \
                to[i * TILE + j] = from[j * stride + i];                                           \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_TILE(uint8_t)
DEFINE_TILE(uint16_t)
DEFINE_TILE(uint32_t)
DEFINE_TILE(uint64_t)
#undef DEFINE_TILE

static void transpose_tile(const void *from, int64_t stride, size_t size, void *to, int64_t rows,
                           int64_t columns)
{
    switch (size) {
    case 1:
        tile_uint8_t(from, stride, to, rows, columns);
        break;
    case 2:
        tile_uint16_t(from, stride, to, rows, columns);
        break;
    case 4:
        tile_uint32_t(from, stride, to, rows, columns);
        break;
    default:
        tile_uint64_t(from, stride, to, rows, columns);
        break;
    }
}

/* A strip is TILE rows of the output, which are adjacent along the axis `across`, for one index of
 * the axes other than that and the last. */
static void copy_strip(const copy_job *job, int64_t strip)
{
    const cpu_walk *w = &job->walk;
    int last = w->n_dims - 1;
    int64_t out_stride = 1, row_stride = 1; /* in the output: stride of an axis, and of `across` */
    int64_t first = strip % job->across_tiles * TILE, rest = strip / job->across_tiles;
    int64_t in_at = first, out_at = 0;
    for (int axis = last; axis >= 0; axis--) {
        if (axis == job->across) {
            row_stride = out_stride;
            out_at += first * out_stride;
        } else if (axis != last) {
            int64_t i = rest % w->shape[axis];
            rest /= w->shape[axis];
            in_at += i * w->strides[0][axis];
            out_at += i * out_stride;
        }
        out_stride *= w->shape[axis];
    }
    int64_t rows = w->shape[job->across] - first < TILE ? w->shape[job->across] - first : TILE;
    int64_t columns = w->shape[last], stride = w->strides[0][last];
    _Alignas(64) char tile[TILE * TILE * 8];
    for (int64_t j = 0; j < columns; j += TILE) {
        int64_t n = columns - j < TILE ? columns - j : TILE;
        const char *from =
            (const char *)job->in->data + (in_at + j * stride) * (int64_t)job->in_size;
        transpose_tile(from, stride, job->in_size, tile, rows, n);
        for (int64_t i = 0; i < rows; i++) {
            put(job, tile + (size_t)i * TILE * job->in_size, out_at + i * row_stride + j, n);
        }
    }
}

static void copy_strips(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t strip = begin; strip < end; strip++) {
        copy_strip(context, strip);
    }
}

/* The axis along which a transposed input is contiguous; -1: tiles do not pay. */
static int transposed_axis(const cpu_walk *w)
{
    int last = w->n_dims - 1;
    if (w->shape[last] < 4 || w->strides[0][last] == 1 || w->strides[0][last] == 0) {
        return -1;
    }
    for (int axis = last - 1; axis >= 0; axis--) {
        if (w->strides[0][axis] == 1 && w->shape[axis] >= 4) {
            return axis;
        }
    }
    return -1;
}

weft_status weft__cpu_copy(const weft_call *call)
{
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    if (in->encoding || out->encoding) {
        return weft_fail(WEFT_UNSUPPORTED, "cpu: copy: unsupported for the encoding %s",
                         in->encoding ? in->encoding->name : out->encoding->name);
    }
    copy_job job = {.in = in, .out = out->data};
    weft__cpu_walk(out, in, 1, &job.walk);
    if (job.walk.size == 0) {
        return WEFT_OK;
    }
    job.in_size = weft_dtype_size(in->dtype);
    job.out_size = weft_dtype_size(out->dtype);
    if (in->dtype != out->dtype) {
        job.convert = weft__cpu_elementwise_table()->convert[in->dtype][out->dtype];
    }
    job.across = transposed_axis(&job.walk);
    if (weft__cpu_walk_is_dense(&job.walk, 0)) {
        weft__cpu_parallel(job.walk.size, CPU_GRAIN, copy_dense, &job);
    } else if (job.across < 0) {
        weft__cpu_parallel(job.walk.size, CPU_GRAIN, copy_strided, &job);
    } else {
        int64_t rows = job.walk.shape[job.across], columns = job.walk.shape[job.walk.n_dims - 1];
        job.across_tiles = (rows + TILE - 1) / TILE;
        int64_t strips = job.walk.size / rows / columns * job.across_tiles;
        weft__cpu_parallel(strips, CPU_GRAIN / (TILE * columns) + 1, copy_strips, &job);
    }
    return WEFT_OK;
}
