/* backends/vulkan/kernels/attention_cores.c -- attention and its gradients on matrix cores:
 * conditions and launches. */
#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/attention.h"
#include "backends/vulkan/shaders.h"

enum {
    PIECE = 8,       /* elements per load */
    MOST_DIMS = 128, /* largest head dimension whose results fit the registers */
    LEAST_ROWS = 32,
    LARGE_DIMS = 64, /* up to this dimension two workgroups share a multiprocessor's registers */
};

static const double least_scale = 0x1p-20; /* scores are computed divided by the scale */

typedef struct sizes {
    uint32_t subgroups; /* per workgroup */
    uint32_t block;     /* number of other items processed at a time */
} sizes;

/* Measured on an H200 (docs/performance-log.md). Software drivers have matrices of 8 x 8. */
static sizes sizes_of(const weft__vulkan_core_shape *s, int64_t dims, bool gradient)
{
    if (s->m < 16) {
        return (sizes){4, 16};
    }
    return dims > LARGE_DIMS && !gradient ? (sizes){8, 64} : (sizes){4, 32};
}

/* Bytes of shared memory, as declared in attention_cores.glsl and attention_cores_dkv.comp. */
static int64_t shared_of(const weft__vulkan_core_shape *s, sizes z, int64_t dims)
{
    const int64_t line = dims / PIECE + 1, space = s->n / 4 + 1;
    return 16 * (2 * z.block * line + s->m * s->n / 4 + z.subgroups * s->m * space) + 8 * z.block;
}

/* Whether every item consists of whole, aligned pieces. */
static bool is_packed(const weft_tensor *t)
{
    for (int i = 0; i < 3; i++) {
        if (t->shape.at[i] > 1 && t->strides[i] % PIECE != 0) {
            return false;
        }
    }
    return weft__vulkan_address_or_0(t) % 16 == 0;
}

bool weft__vulkan_attention_fits_cores(const weft_call *call, const attention *a,
                                       const weft_tensor *d_o)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const weft_dtype dtype = a->q->dtype;
    const weft__vulkan_core_shape *s = cores ? weft__vulkan_core_shape_of(cores, dtype) : NULL;
    /* Only cubes: sums become left factors, and others were never tried. */
    if (!s || s->m != s->n || s->n != s->k || a->k->dtype != dtype || a->v->dtype != dtype ||
        (d_o && d_o->dtype != dtype) || a->wide || a->params->softcap > 0 ||
        a->params->scale < least_scale || a->D != a->Dv || a->D > MOST_DIMS ||
        a->rows < LEAST_ROWS || a->S < 1) {
        return false;
    }
    const sizes z = sizes_of(s, a->D, d_o != NULL);
    return a->D % s->n == 0 && z.block % s->n == 0 && cores->subgroup % s->m == 0 &&
           s->m * s->n / cores->subgroup % PIECE == 0 && shared_of(s, z, a->D) <= cores->shared &&
           z.subgroups * cores->subgroup <= cores->invocations && is_packed(a->q) &&
           is_packed(a->k) && is_packed(a->v) && (!d_o || is_packed(d_o));
}

weft_status weft__vulkan_attention_run_cores(const weft_call *call, const attention *a,
                                             const weft__vulkan_shader *module,
                                             attention_arguments *arguments, int64_t items,
                                             bool gradient)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const weft_dtype dtype = a->q->dtype;
    const weft__vulkan_core_shape *s = weft__vulkan_core_shape_of(cores, dtype);
    const weft__vulkan_shader *shader = weft__vulkan_module_for(module, dtype);
    const sizes z = sizes_of(s, a->D, gradient);
    /* The last: ALIKE, and EVERY_TILE, since subgroups of software drivers must not differ in the
     * barriers that they execute (modules/README.md). */
    const uint32_t constants[] = {z.subgroups * cores->subgroup,
                                  cores->subgroup,
                                  (uint32_t)a->D,
                                  s->m,
                                  s->n,
                                  s->k,
                                  z.block,
                                  cores->alike,
                                  s->m < 16};
    const int64_t own = z.subgroups * s->m, tiles = (items + own - 1) / own;
    attention on_cores = *a;
    on_cores.subgroup = cores->subgroup;
    arguments->tiles = (int32_t)tiles;
    return shader ? weft__vulkan_attention_launch(call, &on_cores, shader, arguments, constants,
                                                  sizeof constants / sizeof *constants,
                                                  tiles * a->pairs)
                  : weft_error_status();
}
