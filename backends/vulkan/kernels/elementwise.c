/* backends/vulkan/kernels/elementwise.c -- elementwise ops from their tapes, copies and
 * conversions.
 *
 * Adjacent axes that are contiguous with each other in all operands are merged. An operand then has
 * the output's layout, or is a single element, or is addressed through a table of strides. Large
 * arrays are processed four elements at a time if all operands allow it.
 */
#include "backends/vulkan/kernels/elementwise.h"

#include <string.h>

#include "backends/vulkan/spirv/cache.h"

enum {
    GROUP = 256,          /* invocations per workgroup */
    WORDS = 25,           /* words of the push block for the operands' addresses, and for the table
                           * if it fits */
    MIN_VECTOR = 1 << 14, /* number of elements from which an invocation computes four */
    MAX_VECTOR_STEPS = 32,
    MAX_ITEMS = 1 << 30, /* invocations per launch */
    MAX_TABLE = WEFT_MAX_OPERANDS + WEFT_MAX_DIMS * (1 + WEFT_MAX_OPERANDS) + 4
};

/* Layout as in shaders/library_memory.glsl. */
typedef struct push {
    uint64_t result, record; /* record: must be a readable address even if there is no record */
    uint32_t recorded, count, rank_operands;
    uint32_t words[WORDS];
} push;

typedef struct job {
    const weft_call *call;
    spirv_plan plan;
    int rank; /* of the remaining axes, the innermost last */
    int64_t shape[WEFT_MAX_DIMS];
    int64_t strides[WEFT_MAX_OPERANDS][WEFT_MAX_DIMS];
    uint64_t in[WEFT_MAX_OPERANDS], out; /* addresses of element 0 */
} job;

/* ---- axes ----------------------------------------------------------------------------------- */

/* Whether axis d of all operands continues the last axis so far. */
static bool goes_on(const job *j, int d)
{
    for (int k = 0; k < j->plan.n_in; k++) {
        const weft_tensor *t = &j->call->in[k];
        if (j->strides[k][j->rank - 1] != t->strides[d] * t->shape.at[d]) {
            return false;
        }
    }
    return true;
}

static void collapse(job *j)
{
    const weft_dims *shape = &j->call->out[0].shape;
    for (int d = 0; d < shape->n; d++) {
        if (shape->at[d] == 1) {
            continue;
        }
        bool joined = j->rank > 0 && goes_on(j, d);
        j->shape[j->rank - joined] = joined ? j->shape[j->rank - 1] * shape->at[d] : shape->at[d];
        j->rank += !joined;
        for (int k = 0; k < j->plan.n_in; k++) {
            j->strides[k][j->rank - 1] = j->call->in[k].strides[d];
        }
    }
    if (j->rank == 0) {
        j->shape[j->rank++] = 1;
    }
}

static int64_t items(const job *j)
{
    int64_t n = 1;
    for (int d = 0; d < j->rank; d++) {
        n *= j->shape[d];
    }
    return n;
}

/* The number of elements from the operand's lowest to its highest; *below: those before element 0.
 */
static int64_t span(const job *j, int k, int64_t *below)
{
    int64_t above = 0;
    *below = 0;
    for (int d = 0; d < j->rank; d++) {
        int64_t reach = (j->shape[d] - 1) * j->strides[k][d];
        *below -= reach < 0 ? reach : 0;
        above += reach > 0 ? reach : 0;
    }
    return *below + above + 1;
}

static spirv_place place_of(const job *j, int k)
{
    bool dense = true, one = true;
    int64_t stride = 1;
    for (int d = j->rank - 1; d >= 0; d--) {
        dense &= j->strides[k][d] == stride || j->shape[d] == 1;
        one &= j->strides[k][d] == 0 || j->shape[d] == 1;
        stride *= j->shape[d];
    }
    return one ? SPIRV_ONE : dense ? SPIRV_DENSE : SPIRV_WALK;
}

/* ---- four at a time ------------------------------------------------------------------------- */

static bool in_fours(const job *j, uint64_t address, weft_dtype dtype, const int64_t *strides)
{
    size_t size = weft_dtype_size(dtype);
    for (int d = 0; d < j->rank - 1; d++) {
        if (strides && strides[d] % 4 != 0) {
            return false;
        }
    }
    return size <= 4 && address % (4 * size) == 0 && (!strides || strides[j->rank - 1] == 1);
}

static bool is_cheap(const weft_tape *tape)
{
    int heavy = 0;
    for (int i = 0; i < tape->n_steps; i++) {
        weft_tape_code code = (weft_tape_code)tape->steps[i].code;
        heavy += (code >= WEFT_TAPE_EXP && code <= WEFT_TAPE_ERFINV) || code == WEFT_TAPE_POW ||
                 code == WEFT_TAPE_ATAN2 || code == WEFT_TAPE_MOD;
    }
    return heavy <= 2 && tape->n_steps <= MAX_VECTOR_STEPS;
}

static bool takes_fours(const job *j)
{
    int last = j->rank - 1;
    if (j->shape[last] % 4 != 0 || items(j) < MIN_VECTOR || !is_cheap(j->plan.tape) ||
        !in_fours(j, j->out, j->plan.out, NULL)) {
        return false;
    }
    for (int k = 0; k < j->plan.n_in; k++) {
        bool splat = j->strides[k][last] == 0;
        if (weft_dtype_size(j->plan.in[k]) > 4 ||
            (!splat && !in_fours(j, j->in[k], j->plan.in[k], j->strides[k]))) {
            return false;
        }
    }
    return true;
}

/* Divides positions by four, except for operands with one element for all four. */
static void take_fours(job *j)
{
    int last = j->rank - 1;
    j->plan.lanes = 4;
    j->shape[last] /= 4;
    for (int k = 0; k < j->plan.n_in; k++) {
        j->plan.splat[k] = j->strides[k][last] == 0;
        for (int d = 0; d < last && !j->plan.splat[k]; d++) {
            j->strides[k][d] /= 4;
        }
    }
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Bytes per unit of a stride. */
static uint64_t unit(const job *j, int k)
{
    uint64_t lanes = j->plan.splat[k] ? 1 : (uint64_t)j->plan.lanes;
    return lanes * weft_dtype_size(j->plan.in[k]);
}

/* Fills the table: offsets of the operands, then each axis's length and strides, innermost first.
 * Returns the number of words; -1: an operand spans too much memory. */
static int fill_table(const job *j, uint32_t *table, uint64_t *addresses)
{
    int n = j->plan.n_in, used = n;
    for (int k = 0; k < n; k++) {
        int64_t below;
        if (span(j, k, &below) > INT32_MAX && j->plan.place[k] == SPIRV_WALK) {
            return -1;
        }
        table[k] = (uint32_t)below;
        addresses[k] = j->in[k] - (uint64_t)below * unit(j, k);
    }
    for (int d = j->rank - 1; d >= 0; d--) {
        table[used++] = (uint32_t)j->shape[d];
        for (int k = 0; k < n; k++) {
            table[used++] = (uint32_t)j->strides[k][d];
        }
    }
    return used;
}

static weft_status launch(job *j)
{
    int n = j->plan.n_in;
    uint32_t table[MAX_TABLE] = {0};
    uint64_t addresses[WEFT_MAX_OPERANDS] = {0};
    bool walks = false;
    for (int k = 0; k < n; k++) {
        j->plan.place[k] = (unsigned char)place_of(j, k);
        walks |= j->plan.place[k] == SPIRV_WALK;
    }
    int words = fill_table(j, table, addresses);
    if (words < 0) {
        return weft_fail(WEFT_UNSUPPORTED, "vulkan: %s: an array spans more than 2^31 elements",
                         j->call->op->name);
    }
    push p = {
        .result = j->out,
        .record = j->out & ~(uint64_t)3,
        .count = (uint32_t)items(j),
        .rank_operands = (uint32_t)j->rank << 8 | (uint32_t)n,
        .recorded = walks && 2 * n + words > WORDS,
    };
    memcpy(p.words, addresses, (size_t)n * sizeof *addresses);
    if (p.recorded) {
        /* Padded, since reading four at a time may go beyond the end. */
        p.record = weft__vulkan_record(j->call, table, (uint32_t)(words + 4) * 4);
        if (!p.record) {
            return weft_error_status();
        }
    } else if (walks) {
        memcpy(p.words + 2 * n, table, (size_t)words * sizeof *table);
    }
    const weft__vulkan_shader *shader = weft__spirv_shader(&j->plan);
    if (!shader) {
        return weft_error_status();
    }
    const weft__vulkan_launch l = {
        .shader = shader,
        .push = &p,
        .push_bytes = sizeof p,
        .groups = weft__vulkan_groups(p.count, GROUP),
        .independent = true,
        .batches = true,
    };
    return weft__vulkan_dispatch(j->call, &l);
}

/* The job for a part of the outermost axis. */
static job part_of(const job *j, int64_t first, int64_t length)
{
    job part = *j;
    int64_t inner = items(j) / j->shape[0];
    part.shape[0] = length;
    part.out += (uint64_t)(first * inner * j->plan.lanes) * weft_dtype_size(j->plan.out);
    for (int k = 0; k < j->plan.n_in; k++) {
        part.in[k] += (uint64_t)(first * j->strides[k][0]) * unit(j, k);
    }
    if (length == 1 && part.rank > 1) {
        part.rank--;
        memmove(part.shape, part.shape + 1, (size_t)part.rank * sizeof *part.shape);
        for (int k = 0; k < j->plan.n_in; k++) {
            memmove(part.strides[k], part.strides[k] + 1, (size_t)part.rank * sizeof(int64_t));
        }
    }
    return part;
}

/* Splits the job into as many launches as necessary. */
static weft_status launch_parts(job *j)
{
    int64_t n = items(j), inner = n / j->shape[0];
    if (n <= MAX_ITEMS) {
        return launch(j);
    }
    int64_t at_once = inner < MAX_ITEMS ? MAX_ITEMS / inner : 1;
    weft_status status = WEFT_OK;
    for (int64_t first = 0; first < j->shape[0] && status == WEFT_OK; first += at_once) {
        int64_t left = j->shape[0] - first;
        job part = part_of(j, first, left < at_once ? left : at_once);
        status = launch_parts(&part);
    }
    return status;
}

static weft_status run(const weft_call *call, const weft_tape *tape)
{
    job j = {.call = call, .out = weft__vulkan_address(&call->out[0])};
    j.plan = (spirv_plan){
        .tape = tape,
        .n_in = call->n_inputs,
        .out = call->out[0].dtype,
        .lanes = 1,
    };
    for (int k = 0; k < call->n_inputs; k++) {
        j.plan.in[k] = call->in[k].dtype;
        j.in[k] = weft__vulkan_address(&call->in[k]);
    }
    collapse(&j);
    int64_t n = items(&j), rest = n % 4;
    if (j.rank == 1 && rest > 0 && n > MIN_VECTOR) { /* the last few elements separately */
        job most = part_of(&j, 0, n - rest), last = part_of(&j, n - rest, rest);
        if (takes_fours(&most)) {
            take_fours(&most);
            weft_status status = launch_parts(&most);
            return status == WEFT_OK ? launch(&last) : status;
        }
    }
    if (takes_fours(&j)) {
        take_fours(&j);
    }
    return launch_parts(&j);
}

/* ---- the backend's functions ---------------------------------------------------------------- */

static const weft_tape no_steps = {.klass = WEFT_CLASS_REAL, .n_operands = 1};

/* Whether the device supports the dtypes and the spans. */
static bool fits(const weft_call *call, const weft_tape *tape)
{
    spirv_plan plan = {.tape = tape, .n_in = call->n_inputs, .out = call->out[0].dtype};
    if (call->n_outputs != 1 || call->n_inputs < 1 || call->n_inputs > WEFT_MAX_OPERANDS ||
        call->out[0].encoding) {
        return false;
    }
    for (int k = 0; k < call->n_inputs; k++) {
        const weft_tensor *t = &call->in[k];
        int64_t reach = 0;
        for (int d = 0; d < t->shape.n; d++) {
            int64_t stride = t->strides[d] < 0 ? -t->strides[d] : t->strides[d];
            reach += (t->shape.at[d] - 1) * stride;
        }
        plan.in[k] = t->dtype;
        if (t->encoding || (reach >= INT32_MAX && !weft_tensor_is_contiguous(t))) {
            return false;
        }
    }
    spirv_needs needs = weft__spirv_needs(&plan);
    bool bytes = weft_dtype_size(plan.out) == 1;
    return (!needs.float64 || weft__vulkan_has(call, WEFT__VULKAN_FLOAT64)) &&
           (!needs.int64 || weft__vulkan_has(call, WEFT__VULKAN_INT64)) &&
           (!bytes || weft__vulkan_has(call, WEFT__VULKAN_STORAGE8));
}

bool weft__vulkan_elementwise_fits(const weft_call *call, const weft_tape *tape)
{
    return tape->klass != WEFT_CLASS_COMPLEX && fits(call, tape);
}

weft_status weft__vulkan_elementwise(const weft_call *call, const weft_tape *tape)
{
    return run(call, tape);
}

bool weft__vulkan_copy_fits(const weft_call *call)
{
    return fits(call, &no_steps);
}

weft_status weft__vulkan_copy(const weft_call *call)
{
    if (!fits(call, &no_steps)) {
        return weft_fail(WEFT_UNSUPPORTED, "vulkan: %s: no copy from %s to %s on this device",
                         call->op->name, weft_dtype_name(call->in[0].dtype),
                         weft_dtype_name(call->out[0].dtype));
    }
    return weft_tensor_size(&call->out[0]) == 0 ? WEFT_OK : run(call, &no_steps);
}
