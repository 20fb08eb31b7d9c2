/* backends/cpu/rope.c -- rotary embedding; the angles of a position are computed once for all heads
 * and samples. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum { GRAIN_FLOATS = 16384, GRAIN_ANGLES = 2048 };

typedef struct rope {
    const weft_call *call;
    const weft_rope_params *params;
    const cpu_kernels *kernels;
    cpu_rows x, y;
    int64_t H, half;   /* half: pairs per head */
    int64_t positions; /* number of positions: (L) or (B, L) */
    int64_t angles;    /* floats for a position's cosines, and for its sines */
    int64_t room;      /* floats per head */
    float *table;      /* per position: cosines, sines */
    float *scratch;    /* one head per worker */
} rope;

static rope rope_of(const weft_call *call)
{
    const weft_tensor *x = &call->in[0];
    rope r = {.call = call,
              .params = call->params,
              .kernels = weft__cpu_kernels(),
              .x = weft__cpu_rows_of(x),
              .y = weft__cpu_rows_of(&call->out[0]),
              .H = x->shape.at[2],
              .half = call->in[2].shape.at[0],
              .positions = weft_tensor_size(&call->in[1]),
              .table = call->workspace};
    r.room = weft__cpu_row_room(r.x.width);
    r.angles = weft__cpu_row_room(r.half);
    return r;
}

int64_t weft__cpu_rope_workspace(const weft_call *call)
{
    rope r = rope_of(call);
    int64_t floats = r.positions * 2 * r.angles + weft__cpu_workers() * r.room;
    return floats * (int64_t)sizeof(float);
}

static void angles_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rope *r = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float position = (float)weft_tensor_get_int(&r->call->in[1], i);
        float *cosine = r->table + i * 2 * r->angles;
        r->kernels->rope_angles(r->call->in[2].data, position, (float)r->params->amplitude,
                                r->params->inverse, cosine, cosine + r->angles, r->half);
    }
}

/* Items are positions (b, l). */
static void turn_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rope *r = context;
    float *scratch = r->scratch + worker * r->room;
    for (int64_t i = begin; i < end; i++) {
        const float *cosine = r->table + i % r->positions * 2 * r->angles;
        for (int64_t row = i * r->H; row < (i + 1) * r->H; row++) {
            const float *x = weft__cpu_row_read(&r->x, row, scratch);
            float *y = weft__cpu_row_target(&r->y, row, scratch);
            r->kernels->rope_row(x, cosine, cosine + r->angles, r->params->interleaved, y, r->half);
            if (x != y)
                memcpy(y + 2 * r->half, x + 2 * r->half,
                       (size_t)(r->x.width - 2 * r->half) * sizeof *y);
            weft__cpu_row_done(&r->y, row, y);
        }
    }
}

weft_status weft__cpu_rope(const weft_call *call)
{
    rope r = rope_of(call);
    int64_t places = call->in[0].shape.at[0] * call->in[0].shape.at[1];
    r.scratch = r.table + r.positions * 2 * r.angles;
    weft__cpu_parallel(r.positions, GRAIN_ANGLES / (r.half + 1) + 1, angles_task, &r);
    weft__cpu_parallel(places, GRAIN_FLOATS / (r.H * r.x.width + 1) + 1, turn_task, &r);
    return WEFT_OK;
}
