/* backends/vulkan/kernels/attention.c -- the attention forward pass, with a running softmax. Many
 * queries are processed in tiles, a few all at once. Keys are divided into chunks if that keeps the
 * device busy; another launch merges the chunks' results in order. */
#include "backends/vulkan/kernels/attention.h"

#include "backends/vulkan/shaders.h"

enum {
    FAR = 1 << 29,     /* larger than any length */
    FEW_CHUNK = 256,   /* most keys of a chunk in attention_few */
    FEW_LEAST = 64,    /* fewest, when there are several chunks */
    FEW_WHOLE = 256,   /* up to this many keys are not divided; at most FEW_CHUNK */
    TILES_CHUNK = 256, /* fewest keys of a chunk in attention */
    ENOUGH = 256,      /* workgroups that keep a large device busy */
    FEW_CONSTANTS = 5, /* of attention_few */
    NO_MASK = 255
};

/* ---- The call ------------------------------------------------------------------------------- */

attention weft__vulkan_attention_of(const weft_call *call, int mask)
{
    const weft_tensor *in = call->in;
    const weft_attention_params *params = call->params;
    attention a = {.params = params,
                   .q = &in[0],
                   .k = &in[1],
                   .v = &in[2],
                   .mask = params->has_mask ? &in[mask] : NULL,
                   .lengths = params->has_lengths ? &in[mask + params->has_mask] : NULL,
                   .B = in[0].shape.at[0],
                   .L = in[0].shape.at[1],
                   .S = in[1].shape.at[1],
                   .H = in[0].shape.at[2],
                   .Hk = in[1].shape.at[2],
                   .D = in[0].shape.at[3],
                   .Dv = in[2].shape.at[3],
                   .wide = weft__vulkan_is_wide(call)};
    a.G = a.H / a.Hk;
    a.rows = a.L * a.G;
    a.pairs = a.B * a.Hk;
    const int64_t window = params->window < a.S ? params->window : a.S;
    const int64_t near = params->causal ? window : 2 * window - 1;
    const int64_t seen = params->window > 0 && near < a.S ? near : a.S;
    a.work = 2.0 * (double)(a.B * a.L * a.H) * (double)(seen * (a.D + a.Dv));
    return a;
}

void weft__vulkan_attention_strides(const weft_tensor *t, int n, uint32_t *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = t->shape.at[i] == 1 ? 0 : (uint32_t)t->strides[i];
    }
}

void weft__vulkan_attention_arguments(const attention *a, attention_arguments *out)
{
    const weft_attention_params *params = a->params;
    const bool windowed = params->window > 0 && params->window < FAR;
    int64_t offset = (params->causal && a->lengths ? 0 : a->S) - a->L, window = params->window;
    if (!params->causal && windowed) { /* as many keys after the query as before it */
        offset += window - 1;
        window += window - 1;
    }
    *out = (attention_arguments){
        .q = weft__vulkan_address_or_0(a->q),
        .k = weft__vulkan_address_or_0(a->k),
        .v = weft__vulkan_address_or_0(a->v),
        .mask = weft__vulkan_address_or_0(a->mask),
        .lengths = weft__vulkan_address_or_0(a->lengths),
        .L = (int32_t)a->L,
        .S = (int32_t)a->S,
        .Hk = (int32_t)a->Hk,
        .D = (int32_t)a->D,
        .Dv = (int32_t)a->Dv,
        .offset = params->causal || windowed ? (int32_t)offset : FAR,
        .window = windowed ? (int32_t)window : 2 * FAR,
        .chunk = (int32_t)a->S,
        .chunks = 1,
        .pairs = (int32_t)a->pairs,
        .cut = a->lengths == NULL ? 0
               : params->causal   ? 2
                                  : 1,
        .reals = weft__vulkan_reals_of(a->wide, params->scale, params->softcap)};
    weft__vulkan_attention_strides(a->q, 3, out->q_at);
    weft__vulkan_attention_strides(a->k, 3, out->k_at);
    weft__vulkan_attention_strides(a->v, 3, out->v_at);
    if (a->mask) {
        weft__vulkan_attention_strides(a->mask, 4, out->mask_at);
    }
}

bool weft__vulkan_attention_fits_copies(const weft_call *call)
{
    const attention a = weft__vulkan_attention_of(call, 3);
    return weft__vulkan_fits(call) && !a.params->has_first && !a.params->has_ends &&
           a.D <= ATTENTION_MOST_DIMS && a.Dv <= ATTENTION_MOST_DIMS && a.L < FAR && a.S < FAR &&
           (!a.lengths || weft_tensor_is_contiguous(a.lengths));
}

bool weft__vulkan_attention_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        if (!weft__vulkan_is_forward(&call->in[i])) {
            return false;
        }
    }
    return weft__vulkan_attention_fits_copies(call);
}

uint32_t weft__vulkan_attention_own(const attention *a, int64_t items, int64_t width, uint32_t most)
{
    uint32_t own = a->wide && most > 2 ? 2 : most;
    while (own > 1 && (own * ((width + ATTENTION_COLUMNS - 1) / ATTENTION_COLUMNS) > 8 ||
                       (own / 2) * ATTENTION_SIDE >= items)) {
        own /= 2;
    }
    return own;
}

weft_status weft__vulkan_attention_launch(const weft_call *call, const attention *a,
                                          const weft__vulkan_shader *shader,
                                          const attention_arguments *arguments,
                                          const uint32_t *constants, int n, int64_t groups)
{
    const uint64_t record = weft__vulkan_record(call, arguments, sizeof *arguments);
    const struct attention_push {
        uint64_t record;
        uint32_t first_group;
    } push = {.record = record};
    weft__vulkan_launch launch = {.shader = shader,
                                  .n_constants = ATTENTION_COMMON + n,
                                  .constants = {a->q->dtype, a->k->dtype, a->v->dtype,
                                                a->mask ? a->mask->dtype : NO_MASK, (uint32_t)a->G},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .first_at = offsetof(struct attention_push, first_group),
                                  .groups = (uint64_t)groups,
                                  .subgroup = a->subgroup,
                                  .work = a->work};
    for (int i = 0; i < n; i++) {
        launch.constants[ATTENTION_COMMON + i] = constants[i];
    }
    return record ? weft__vulkan_dispatch(call, &launch) : weft_error_status();
}

/* ---- The plan ------------------------------------------------------------------------------- */

typedef struct plan {
    attention a;
    bool few;
    uint32_t own;                        /* of a tile */
    int64_t first, chunk, chunks, tiles; /* as defined in attention.glsl */
} plan;

/* The first key that a query may attend to. With lengths, which the host does not know, it is 0. */
static int64_t first_key(const attention *a)
{
    const int64_t window = a->params->window, first = a->S - a->L - window + 1;
    return a->params->causal && !a->lengths && window > 0 && first > 0 ? first : 0;
}

static int64_t divide(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Number of values of the chunks' results. */
static int64_t partial_reals(const plan *p)
{
    return p->chunks > 1 ? p->a.B * p->a.L * p->a.H * p->chunks * (p->a.Dv + 2) : 0;
}

static bool plan_few(plan *p)
{
    const attention *a = &p->a;
    const int64_t most = a->wide ? 2 : a->D > 256 ? 4 : 8, keys = a->S - p->first;
    p->chunk = FEW_CHUNK;
    while (p->chunk > FEW_LEAST && keys > FEW_WHOLE && a->pairs * divide(keys, p->chunk) < ENOUGH) {
        p->chunk /= 2;
    }
    p->chunks = keys > FEW_WHOLE ? divide(keys, p->chunk) : 1;
    return a->rows <= most && partial_reals(p) < INT32_MAX;
}

static void plan_tiles(plan *p)
{
    const attention *a = &p->a;
    const int64_t keys = a->S - p->first;
    p->own = weft__vulkan_attention_own(a, a->rows, a->Dv, 4);
    p->tiles = divide(a->rows, p->own * ATTENTION_SIDE);
    p->chunk = keys > 0 ? keys : 1;
    p->chunks = 1;
    const int64_t groups = p->tiles * a->pairs;
    if (groups > 0 && groups < ENOUGH / 2 && keys >= 2 * TILES_CHUNK) {
        const int64_t wanted = divide(ENOUGH, groups), most = keys / TILES_CHUNK;
        const int64_t chunk = divide(keys, wanted < most ? wanted : most);
        p->chunk = divide(chunk, 4 * ATTENTION_SIDE) * 4 * ATTENTION_SIDE;
        p->chunks = divide(keys, p->chunk);
    }
    if (partial_reals(p) >= INT32_MAX) {
        p->chunk = keys;
        p->chunks = 1;
    }
}

/* The forward pass, whose keys may be in pages. */
static attention forward_of(const weft_call *call)
{
    const weft_attention_params *params = call->params;
    const int mask = call->n_inputs - params->has_mask - params->has_lengths - params->has_first -
                     params->has_ends;
    attention a = weft__vulkan_attention_of(call, mask);
    a.appends = mask >= APPEND_FIXED;
    if (a.appends) {
        a.k = &call->out[2];
        a.v = &call->out[3];
    }
    if (mask > APPEND_FIXED) {
        const weft_attention_append_params *append = call->params;
        a.pages = &call->in[APPEND_FIXED];
        a.page = append->page;
        a.n_pages = a.S / a.page;
    } else if (mask > 3 && !a.appends) {
        a.pages = &call->in[3];
        a.page = a.S;
        a.n_pages = a.k->shape.at[0];
    }
    a.S = a.pages ? a.page * a.pages->shape.at[1] : a.S;
    return a;
}

bool weft__vulkan_attention_pages_fits(const weft_call *call)
{
    if (call->in[1].dtype == WEFT_UINT8) {
        return false;
    }
    const attention a = forward_of(call);
    const weft_tensor *keys[] = {a.k, a.v};
    for (int i = 0; i < 2; i++) { /* all keys of a head at equal distances, which is not 0 */
        if (keys[i]->shape.at[1] < 2 ||
            keys[i]->strides[0] != keys[i]->strides[1] * keys[i]->shape.at[1]) {
            return false;
        }
    }
    return weft_tensor_is_contiguous(a.pages) && a.S < FAR && a.k->shape.at[0] > 0 &&
           weft__vulkan_attention_fits(call) &&
           (!a.lengths || weft_tensor_is_contiguous(a.lengths));
}

static uint32_t power_of_two(int64_t n, uint32_t least, uint32_t most)
{
    uint32_t power = least;
    while (power < most && power < n) {
        power *= 2;
    }
    return power;
}

static plan plan_of(const weft_call *call)
{
    plan p = {.a = forward_of(call), .tiles = 1};
    p.first = first_key(&p.a);
    p.few = plan_few(&p);
    if (!p.few) {
        plan_tiles(&p);
    }
    return p;
}

bool weft__vulkan_attention_append_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        if (!weft__vulkan_is_forward(&call->in[i])) {
            return false;
        }
    }
    const plan p = plan_of(call);
    const attention *a = &p.a;
    const int64_t rows = power_of_two(a->rows, 1, 8);
    const int64_t shared = rows * (a->D + 2 * FEW_CHUNK + 1) + 3 * a->D; /* attention_few.comp */
    return weft__vulkan_fits(call) && p.few && !a->wide && a->L == 1 && a->B > 0 && a->D > 0 &&
           a->Dv > 0 && a->S > 0 && a->S < FAR && a->D <= ATTENTION_MOST_DIMS &&
           a->Dv <= ATTENTION_MOST_DIMS && a->params->causal && a->lengths &&
           weft_tensor_is_contiguous(a->lengths) &&
           (!a->pages ||
            (weft_tensor_is_contiguous(a->pages) && a->n_pages > 0 && a->k->shape.at[1] > 1)) &&
           shared * (int64_t)sizeof(float) <= weft__vulkan_shared(call);
}

int64_t weft__vulkan_attention_workspace(const weft_call *call)
{
    const plan p = plan_of(call);
    return partial_reals(&p) * (p.a.wide ? 8 : 4);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static int64_t piece_of(const weft_tensor *t)
{
    return 16 / (int64_t)weft_dtype_size(t->dtype);
}

/* Whether the elements of every key are aligned pieces of 16 bytes. */
static bool is_packed(const weft_tensor *t)
{
    uint32_t at[3];
    weft__vulkan_attention_strides(t, 3, at);
    const int64_t starts = (int64_t)(at[0] | at[1] | at[2]) | t->shape.at[3];
    return t->shape.at[3] > 0 && starts % piece_of(t) == 0 &&
           weft__vulkan_address_or_0(t) % 16 == 0;
}

static weft_status attend(const weft_call *call, const plan *p,
                          const attention_arguments *arguments)
{
    const attention *a = &p->a;
    const int64_t groups = a->pairs * p->chunks * p->tiles;
    if (p->few) {
        const bool packed = !a->wide && a->D == a->Dv && is_packed(a->k) && is_packed(a->v) &&
                            (!a->appends || is_packed(&call->in[APPEND_V]));
        const int64_t line = packed ? a->Dv / piece_of(a->v) : a->Dv;
        uint32_t constants[FEW_CONSTANTS + APPEND_CONSTANTS] = {
            power_of_two(a->rows, 1, 8), a->D > 0 ? (uint32_t)a->D : 1,
            power_of_two(line, packed ? 1 : 32, 256), packed, (uint32_t)a->page};
        if (a->appends) {
            weft__vulkan_attention_append_constants(call, constants + FEW_CONSTANTS);
        }
        return weft__vulkan_attention_launch(
            call, a,
            a->appends ? &weft__shader_attention_append
            : a->wide  ? &weft__shader_attention_few_f64
                       : &weft__shader_attention_few,
            arguments, constants, FEW_CONSTANTS + (a->appends ? APPEND_CONSTANTS : 0), groups);
    }
    const uint32_t constants[] = {p->own, a->wide ? 2 : 4,
                                  (uint32_t)divide(a->Dv > 0 ? a->Dv : 1, ATTENTION_COLUMNS),
                                  (uint32_t)a->page};
    return weft__vulkan_attention_launch(
        call, a, a->wide ? &weft__shader_attention_f64 : &weft__shader_attention, arguments,
        constants, 4, groups);
}

weft_status weft__vulkan_attention_forward(const weft_call *call)
{
    const plan p = plan_of(call);
    const attention *a = &p.a;
    attention_arguments arguments;
    weft__vulkan_attention_arguments(a, &arguments);
    arguments.o = weft__vulkan_address_or_0(&call->out[0]);
    arguments.lse = weft__vulkan_address_or_0(&call->out[1]);
    arguments.work = weft__vulkan_workspace(call);
    if (a->appends) {
        arguments.d_o = weft__vulkan_attention_append_record(call);
        if (!arguments.d_o) {
            return weft_error_status();
        }
    }
    if (a->pages) {
        arguments.dk = weft__vulkan_address_or_0(a->pages);
        arguments.d_o_at[0] = (uint32_t)a->pages->shape.at[1];
        arguments.d_o_at[1] = (uint32_t)(a->n_pages - 1);
    } else if (!a->appends && weft__vulkan_attention_fits_cores(call, a, NULL)) {
        return weft__vulkan_attention_run_cores(call, a, &weft__shader_attention_cores, &arguments,
                                                a->rows, false);
    }
    arguments.first = (int32_t)p.first;
    arguments.chunk = (int32_t)p.chunk;
    arguments.chunks = (int32_t)p.chunks;
    arguments.tiles = (int32_t)p.tiles;
    weft_status status = attend(call, &p, &arguments);
    if (status != WEFT_OK || p.chunks == 1) {
        return status;
    }
    attention merged = *a;
    merged.work = 0;
    return weft__vulkan_attention_launch(
        call, &merged, a->wide ? &weft__shader_attention_merge_f64 : &weft__shader_attention_merge,
        &arguments, NULL, 0, a->B * a->L * a->H);
}
