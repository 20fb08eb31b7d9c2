/* backends/cpu/elementwise.c -- runs elementwise ops from their tapes.
 *
 * Operands are processed in blocks that fit the L1 cache, converted to the compute type if
 * necessary, and passed to a generated kernel, or to the chain if the tape has none: as one program
 * if it computes in float. Operands that already have the required layout are used in place.
 */
#include "backends/cpu/elementwise.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/pool.h"

enum {
    MIN_ROW = 128, /* rows at least this long are processed one by one, so that they can be used in
                    * place; shorter ones are gathered into blocks */
    PROGRAM_SIZE = 512, /* number of elements from which writing a program pays */
    STREAM_GRAIN = 8 * CPU_GRAIN,
    CACHE_UNKNOWN = 32 << 20
};

static const weft_dtype type_dtypes[CPU_TYPE_COUNT] = {
    [CPU_F32] = WEFT_FLOAT32, [CPU_F64] = WEFT_FLOAT64,   [CPU_I32] = WEFT_INT32,
    [CPU_U32] = WEFT_UINT32,  [CPU_I64] = WEFT_INT64,     [CPU_U64] = WEFT_UINT64,
    [CPU_B8] = WEFT_BOOL,     [CPU_C64] = WEFT_COMPLEX64,
};

static const cpu_type first_types[WEFT_CLASS_COUNT] = {
    [WEFT_CLASS_REAL] = CPU_F32,
    [WEFT_CLASS_INTEGER] = CPU_I32,
    [WEFT_CLASS_BOOL] = CPU_B8,
    [WEFT_CLASS_COMPLEX] = CPU_C64,
};

typedef struct cpu_source {
    cpu_walk walk;
    const weft_tensor *in;
    int n_inputs;
    const weft_tape *tape;
    cpu_type type;
    weft_dtype type_dtype;
    size_t type_size, out_size;
    char *out;
    cpu_map *map; /* NULL: uses the chain */
    int bits;
    int64_t block;      /* most elements processed at a time */
    int64_t row;        /* blocks do not cross multiples of this; INT64_MAX: no limit */
    int64_t room;       /* elements of the block of an operand or slot */
    int n_blocks;       /* of operands */
    int64_t grain;      /* elements per task */
    bool streams;       /* operands and output are larger than the caches */
    cpu_convert *store; /* NULL: results are written directly */
    cpu_convert *load[WEFT_TAPE_MAX_OPERANDS]; /* NULL: no conversion */
    bool scalar[WEFT_TAPE_MAX_OPERANDS], dense[WEFT_TAPE_MAX_OPERANDS];
    int at[WEFT_TAPE_MAX_OPERANDS];       /* index of the operand's block, if it has one */
    float number[WEFT_TAPE_MAX_OPERANDS]; /* scalar operands, if there is a program */
    cpu_chain chain;
    cpu_program program; /* of the chain; n_records 0: the chain has no program */
} job;

/* ---- Preparing a call ------------------------------------------------------------------------ */

static cpu_type type_of(weft_class klass, weft_dtype dtype)
{
    switch (klass) {
    case WEFT_CLASS_REAL:
        return dtype == WEFT_FLOAT64 ? CPU_F64 : CPU_F32;
    case WEFT_CLASS_INTEGER:
        if (weft_dtype_is_signed(dtype)) {
            return dtype == WEFT_INT64 ? CPU_I64 : CPU_I32;
        }
        return dtype == WEFT_UINT64 ? CPU_U64 : CPU_U32;
    case WEFT_CLASS_BOOL:
        return CPU_B8;
    default:
        return CPU_C64;
    }
}

/* 8- and 16-bit integers are computed in 32 bits and wrap when stored. That suffices for one
 * operation; between several they have to wrap each time. */
static bool wraps_between_steps(const weft_tape *tape, cpu_type type, int bits)
{
    int operations = 0;
    for (int i = 0; i < tape->n_steps; i++) {
        operations += weft_tape_arity((weft_tape_code)tape->steps[i].code) > 0;
    }
    return operations > 1 && bits < 32 && (type == CPU_I32 || type == CPU_U32);
}

static bool same_tape(const cpu_key *key, const weft_tape *tape, bool to_bool)
{
    if (key->klass != tape->klass || key->to_bool != to_bool ||
        key->n_operands != tape->n_operands || key->n_steps != tape->n_steps) {
        return false;
    }
    for (int i = 0; i < tape->n_steps; i++) {
        const weft_tape_step *a = &key->steps[i], *b = &tape->steps[i];
        if (a->code != b->code || memcmp(a->value, b->value, sizeof a->value) != 0 ||
            memcmp(&a->constant, &b->constant, sizeof a->constant) != 0) {
            return false;
        }
    }
    return true;
}

cpu_map *weft__cpu_find_map(const weft_tape *tape, cpu_type type, bool to_bool)
{
    uint64_t hash = cpu_tape_hash(tape, to_bool);
    int low = 0, high = weft__cpu_key_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (weft__cpu_keys[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == weft__cpu_key_count || weft__cpu_keys[low].hash != hash ||
        !same_tape(&weft__cpu_keys[low], tape, to_bool)) {
        return NULL;
    }
    return weft__cpu_elementwise_table()->fused[low][type - first_types[tape->klass]];
}

/* Prepares everything but the walk. The struct is large, so fields that are not needed are not set.
 */
static void prepare(job *j, const weft_call *call, const weft_tensor *out, const weft_tape *tape)
{
    weft_dtype dtype = call->in[0].dtype;
    for (int i = 1; i < call->n_inputs; i++) {
        dtype = weft_promote(dtype, call->in[i].dtype);
    }
    cpu_type type = type_of(tape->klass, dtype);
    cpu_convert *const(*convert)[WEFT_DTYPE_COUNT] = weft__cpu_elementwise_table()->convert;
    j->in = call->in;
    j->n_inputs = call->n_inputs;
    j->tape = tape;
    j->type = type;
    j->type_dtype = type_dtypes[type];
    j->type_size = weft_dtype_size(j->type_dtype);
    j->out = out->data;
    j->out_size = weft_dtype_size(out->dtype);
    j->bits = 8 * (int)weft_dtype_size(dtype);
    bool to_bool = out->dtype == WEFT_BOOL && type != CPU_B8;
    bool one_loop = tape->n_parts == 0 && !wraps_between_steps(tape, type, j->bits);
    j->map = one_loop ? weft__cpu_find_map(tape, type, to_bool) : NULL;
    bool stores = j->type_dtype != out->dtype && !(j->map && to_bool);
    j->store = stores ? convert[j->type_dtype][out->dtype] : NULL;
    j->chain.n_slots = 0;
    j->program.n_records = 0;
    j->grain = CPU_GRAIN;
    for (int i = 0; i < call->n_inputs; i++) {
        weft_dtype from = call->in[i].dtype;
        j->load[i] = from != j->type_dtype ? convert[from][j->type_dtype] : NULL;
    }
}

/* Whether rows are processed one by one. Long rows are, so that operands can be used in place;
 * short ones are gathered into blocks, except, for a program, when every row ends within a group.
 */
static bool goes_by_rows(const job *j, bool program)
{
    const int64_t row = j->walk.shape[j->walk.n_dims - 1];
    const int64_t group = weft__cpu_elementwise_table()->group;
    return row >= (program && row % group != 0 ? 8 * group : MIN_ROW);
}

/* Whether the operands already have the layout and type for the computation. Programs take scalars
 * as numbers; kernels need them as blocks. */
static bool is_in_place(const job *j, bool program)
{
    int last = j->walk.n_dims - 1;
    bool in_place = !j->store && (last == 0 || goes_by_rows(j, program));
    for (int i = 0; i < j->n_inputs; i++) {
        bool number = j->scalar[i] && program;
        in_place = in_place && (number || (!j->load[i] && j->walk.strides[i][last] == 1));
    }
    return in_place;
}

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static int64_t cache_bytes = CACHE_UNKNOWN;

static void measure_cache(void)
{
#if defined(_SC_LEVEL3_CACHE_SIZE)
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    cache_bytes = bytes > 0 ? bytes : CACHE_UNKNOWN;
#endif
}

void weft__cpu_elementwise_cache(int64_t bytes)
{
    pthread_once(&cache_once, measure_cache);
    cache_bytes = bytes;
}

/* Whether more memory is read and written than the last-level cache holds. In-place output is
 * cached when it is written. */
static bool goes_through_memory(const job *j)
{
    int64_t bytes = j->walk.size * (int64_t)j->out_size;
    for (int i = 0; i < j->n_inputs; i++) {
        if (j->in[i].data == (const void *)j->out) {
            return false;
        }
        bytes += j->dense[i] ? j->walk.size * (int64_t)weft_dtype_size(j->in[i].dtype) : 0;
    }
    pthread_once(&cache_once, measure_cache);
    return bytes > cache_bytes;
}

/* Reads the element of a scalar operand, converted. */
static void read_number(const job *j, int k, void *to)
{
    const weft_tensor *t = &j->in[k];
    if (j->load[k]) {
        j->load[k](t->data, to, 1);
    } else {
        memcpy(to, t->data, j->type_size);
    }
}

/* Makes the tape a chain, and a program if it computes in float and is long enough. */
static void write_chain(job *j)
{
    const float *number[WEFT_TAPE_MAX_OPERANDS] = {NULL};
    weft__cpu_chain_prepare(&j->chain, j->tape, j->type, j->bits);
    if (j->type != CPU_F32 || j->walk.size < PROGRAM_SIZE) {
        return;
    }
    for (int i = 0; i < j->n_inputs; i++) {
        if (j->scalar[i]) {
            read_number(j, i, &j->number[i]);
            number[i] = &j->number[i];
        }
    }
    weft__cpu_program_write(&j->program, &j->chain, number);
    if (j->program.n_records > 0) {
        j->map = NULL;
        j->chain.n_slots = 0; /* the program has its own slots */
    }
}

/* Chooses how many elements of all operands and results fit the L1 cache together, and the offsets
 * of the operands' blocks. */
static void place_blocks(job *j, bool program)
{
    j->n_blocks = 0;
    for (int i = 0; i < j->n_inputs; i++) {
        j->at[i] = j->n_blocks;
        j->n_blocks += !(program && j->scalar[i]);
    }
    int64_t bytes = (j->n_blocks + j->chain.n_slots + 2) * (int64_t)j->type_size;
    int64_t room = CPU_CHAIN_CACHE / bytes / CPU_CHAIN_BLOCK * CPU_CHAIN_BLOCK;
    room = room < CPU_CHAIN_BLOCK ? CPU_CHAIN_BLOCK : room;
    j->room = j->map || room > CPU_BLOCK ? CPU_BLOCK : room;
}

/* Divides the work, once the walk is known. */
static void prepare_blocks(job *j, const weft_tensor *out)
{
    weft__cpu_walk(out, j->in, j->n_inputs, &j->walk);
    for (int i = 0; i < j->n_inputs; i++) {
        j->scalar[i] = weft__cpu_walk_is_scalar(&j->walk, i);
        j->dense[i] = weft__cpu_walk_is_dense(&j->walk, i);
    }
    bool floats = j->type == CPU_F32 && j->out_size == sizeof(float);
    bool streams = floats && is_in_place(j, true) && goes_through_memory(j);
    if (!j->map || streams) {
        write_chain(j);
    }
    const bool program = j->program.n_records > 0;
    place_blocks(j, program);
    j->streams = streams && program;
    j->grain = j->streams ? STREAM_GRAIN : CPU_GRAIN;
    j->row = goes_by_rows(j, program) ? j->walk.shape[j->walk.n_dims - 1] : INT64_MAX;
    bool whole = (j->map || program) && is_in_place(j, program);
    j->block = whole ? j->grain : j->room;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* The memory of one task, in this order: the operands' blocks, a block for results before
 * conversion, the chain's slots, and a block for gathered elements before conversion (up to 8 bytes
 * an element for any type). */
typedef struct blocks {
    char *at;
    size_t bytes;         /* of a block */
    cpu_running *program; /* or NULL */
    char *out;            /* output address of element `first` and those after it */
    int64_t first;
} blocks;

enum {
    MAP_ROOM = (WEFT_MAX_OPERANDS + 2) * CPU_BLOCK * 8,
    CHAIN_ROOM = (WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS + 2) * CPU_CHAIN_BLOCK * 8,
    PROGRAM_ROOM = CPU_CHAIN_CACHE + CPU_BLOCK * 8
};
_Static_assert((int)CHAIN_ROOM >= (int)CPU_CHAIN_CACHE, "room for any chain");

static char *block_at(const blocks *b, int i)
{
    return b->at + (size_t)i * b->bytes;
}

static const char *element(const job *j, int k, int64_t at)
{
    int64_t size = (int64_t)weft_dtype_size(j->in[k].dtype);
    return (const char *)j->in[k].data + weft__cpu_walk_offset(&j->walk, k, at) * size;
}

/* Fills the block with one converted element, n times. */
static void fill_block(const job *j, int k, int64_t at, int64_t n, char *to)
{
    _Alignas(8) char one[8];
    const char *from = element(j, k, at);
    if (j->load[k]) {
        j->load[k](from, one, 1);
        from = one;
    }
    weft__cpu_walk_splat(to, from, j->type_size, n);
}

/* Operand k from position `at` on, n elements of the compute type. */
static const void *read_block(const job *j, int k, int64_t at, int64_t n, const blocks *b)
{
    char *own = block_at(b, j->at[k]);
    if (j->scalar[k]) {
        return own; /* filled when the task began; a program does not use it */
    }
    int last = j->walk.n_dims - 1;
    int64_t stride = j->walk.strides[k][last];
    bool one_row = j->dense[k] || at % j->walk.shape[last] + n <= j->walk.shape[last];
    if (one_row && stride == 0) {
        fill_block(j, k, at, n, own);
        return own;
    }
    const void *raw;
    if (one_row && stride == 1) {
        raw = element(j, k, at);
    } else {
        char *to = j->load[k] ? block_at(b, j->n_blocks + 1 + j->chain.n_slots) : own;
        weft__cpu_gather(&j->walk, k, &j->in[k], at, n, to);
        raw = to;
    }
    if (!j->load[k]) {
        return raw;
    }
    j->load[k](raw, own, n);
    return own;
}

static void run_block(const job *j, int64_t at, int64_t n, const blocks *b)
{
    const void *in[WEFT_TAPE_MAX_OPERANDS];
    for (int k = 0; k < j->n_inputs; k++) {
        in[k] = read_block(j, k, at, n, b);
    }
    char *target = b->out + (size_t)(at - b->first) * j->out_size;
    void *to = j->store ? block_at(b, j->n_blocks) : target;
    if (b->program) {
        weft__cpu_program_run(b->program, in, to, n, j->streams, j->streams && j->out);
    } else if (j->map) {
        j->map(in, to, n, j->bits);
    } else {
        weft__cpu_chain_run(&j->chain, in, to, n, block_at(b, j->n_blocks + 1), j->room);
    }
    if (j->store) {
        j->store(to, target, n);
    }
}

static void run_blocks(const job *j, int64_t begin, int64_t end, const blocks *b)
{
    for (int k = 0; k < j->n_inputs && !b->program; k++) {
        if (j->scalar[k]) {
            fill_block(j, k, 0, end - begin < j->room ? end - begin : j->room,
                       block_at(b, j->at[k]));
        }
    }
    for (int64_t at = begin, n; at < end; at += n) {
        n = end - at < j->block ? end - at : j->block;
        if (j->row - at % j->row < n) {
            n = j->row - at % j->row;
        }
        run_block(j, at, n, b);
    }
}

static void run_map(const job *j, int64_t begin, int64_t end, char *out)
{
    _Alignas(64) char room[MAP_ROOM];
    run_blocks(j, begin, end, &(blocks){room, (size_t)j->room * j->type_size, NULL, out, begin});
}

static void run_chain(const job *j, int64_t begin, int64_t end, char *out)
{
    _Alignas(64) char room[CHAIN_ROOM];
    const blocks b = {room, (size_t)j->room * j->type_size, NULL, out, begin};
    weft__cpu_chain_constants(&j->chain, block_at(&b, j->n_blocks + 1), j->room);
    run_blocks(j, begin, end, &b);
}

static void run_program(const job *j, int64_t begin, int64_t end, char *out)
{
    _Alignas(64) char room[PROGRAM_ROOM];
    cpu_running program;
    weft__cpu_program_open(&program, &j->program);
    run_blocks(j, begin, end,
               &(blocks){room, (size_t)j->room * j->type_size, &program, out, begin});
}

/* Computes elements [begin, end) and writes the first of them to `out`. */
static void run_elements(const job *j, int64_t begin, int64_t end, char *out)
{
    (j->map ? run_map : j->program.n_records > 0 ? run_program : run_chain)(j, begin, end, out);
}

static void run_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    run_elements(j, begin, end, j->out + (size_t)begin * j->out_size);
}

/* A small call whose operands have the output's layout needs no walk. */
static bool run_small(const job *j, int64_t size)
{
    const void *in[WEFT_MAX_OPERANDS];
    if (!j->map || j->store || size > CPU_GRAIN) {
        return false;
    }
    for (int i = 0; i < j->n_inputs; i++) {
        const weft_tensor *t = &j->in[i];
        if (j->load[i] || !weft_tensor_is_contiguous(t) || weft_tensor_size(t) != size) {
            return false;
        }
        in[i] = t->data;
    }
    j->map(in, j->out, size, j->bits);
    return true;
}

weft_status weft__cpu_elementwise(const weft_call *call, const weft_tape *tape)
{
    const weft_tensor *out = &call->out[0];
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->in[i].encoding) {
            return weft_fail(WEFT_UNSUPPORTED, "cpu: %s: input %d: unsupported for the encoding %s",
                             call->op->name, i, call->in[i].encoding->name);
        }
    }
    int64_t size = weft_tensor_size(out);
    if (size == 0) {
        return WEFT_OK;
    }
    job j;
    prepare(&j, call, out, tape);
    if (run_small(&j, size)) {
        return WEFT_OK;
    }
    prepare_blocks(&j, out);
    weft__cpu_parallel(j.walk.size, j.grain, run_task, &j);
    return WEFT_OK;
}

/* ---- Sources for other kernels --------------------------------------------------------------- */

cpu_source *weft__cpu_source_open(const weft_call *call)
{
    cpu_source *s = weft_malloc(sizeof *s);
    if (s) {
        weft_tensor out = call->formula->x;
        out.dtype = WEFT_FLOAT32; /* the tape rounds to the node's dtype */
        prepare(s, call, &out, call->formula->tape);
        prepare_blocks(s, &out);
    }
    return s;
}

void weft__cpu_source_read(const cpu_source *s, int64_t first, int64_t n, float *to)
{
    run_elements(s, first, first + n, (char *)to);
}

void weft__cpu_source_close(cpu_source *s)
{
    weft_free(s);
}
