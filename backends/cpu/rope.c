/* backends/cpu/rope.c -- rotary embedding: the angles of a position once for all its heads. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum { GRAIN_FLOATS = 8192 };

typedef struct rope {
    const weft_call *call;
    const weft_rope_params *params;
    const cpu_kernels *kernels;
    cpu_rows x, y;
    int64_t L, H, half; /* half: pairs of a head */
    float *scratch;
    int64_t room, angles; /* floats of a head, and of the angles */
} rope;

static rope rope_of(const weft_call *call)
{
    const weft_tensor *x = &call->in[0];
    rope r = {.call = call,
              .params = call->params,
              .kernels = weft__cpu_kernels(),
              .x = weft__cpu_rows_of(x),
              .y = weft__cpu_rows_of(&call->out[0]),
              .L = x->shape.at[1],
              .H = x->shape.at[2],
              .half = call->in[2].shape.at[0],
              .scratch = call->workspace};
    r.room = weft__cpu_row_room(r.x.width);
    r.angles = weft__cpu_row_room(r.half);
    return r;
}

int64_t weft__cpu_rope_workspace(const weft_call *call)
{
    rope r = rope_of(call);
    return weft__cpu_workers() * (r.room + 2 * r.angles) * (int64_t)sizeof(float);
}

/* Items are places (b, l). */
static void rope_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rope *r = context;
    const weft_tensor *positions = &r->call->in[1];
    float *scratch = r->scratch + worker * (r->room + 2 * r->angles);
    float *cosine = scratch + r->room, *sine = cosine + r->angles;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = positions->shape.n == 2 ? i : i % r->L;
        float position = (float)weft_tensor_get_int(positions, at);
        r->kernels->rope_angles(r->call->in[2].data, position, (float)r->params->amplitude,
                                r->params->inverse, cosine, sine, r->half);
        for (int64_t row = i * r->H; row < (i + 1) * r->H; row++) {
            const float *x = weft__cpu_row_read(&r->x, row, scratch);
            float *y = weft__cpu_row_target(&r->y, row, scratch);
            r->kernels->rope_row(x, cosine, sine, r->params->interleaved, y, r->half);
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
    int64_t places = call->in[0].shape.at[0] * r.L;
    weft__cpu_parallel(places, GRAIN_FLOATS / (r.H * r.x.width + 1) + 1, rope_task, &r);
    return WEFT_OK;
}
