/* backends/cpu/elementwise_chain.c -- runs a tape as several loops over a block. A merged tape gets
 * one loop for each op, using the op's own kernel, so that fusion changes no bits; another tape
 * gets one loop per step. Intermediate results are in slots, which are reused after their last use
 * and stay in the L1 cache. */
#include "backends/cpu/elementwise.h"

#include <string.h>

static bool is_constant(const weft_tape_step *step)
{
    return step->code == WEFT_TAPE_CONST || step->code == WEFT_TAPE_BITS;
}

/* ---- Links ---------------------------------------------------------------------------------- */

static void push(cpu_chain *c, cpu_map *map, const unsigned char *read, int n, int write)
{
    cpu_link *link = &c->links[c->n_links++];
    *link = (cpu_link){.map = map, .n_reads = (unsigned char)n, .write = (unsigned char)write};
    memcpy(link->read, read, (size_t)n);
}

/* Adds the steps [begin, end) of the tape one by one. */
static void push_steps(cpu_chain *c, int begin, int end)
{
    cpu_map *const(*maps)[CPU_TYPE_COUNT] = weft__cpu_elementwise_table()->steps;
    for (int i = begin; i < end; i++) {
        const weft_tape_step *s = &c->tape->steps[i];
        if (is_constant(s)) {
            c->constants[c->n_constants++] = (unsigned char)i;
            continue;
        }
        push(c, maps[s->code][c->type], s->value, weft_tape_arity((weft_tape_code)s->code),
             c->tape->n_operands + i);
        c->links[c->n_links - 1].step = s;
        c->links[c->n_links - 1].wraps = c->bits < 32 && (c->type == CPU_I32 || c->type == CPU_U32);
    }
}

/* Whether the steps one by one give the same bits as the op's own kernel, and exist as stages of
 * programs: no product is added to something, which the kernel may compute with one rounding. */
static bool is_plain(const cpu_chain *c, const weft_tape *t)
{
    bool product[WEFT_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {false};
    bool plain = c->type == CPU_F32 && t->n_steps > 0 && !is_constant(&t->steps[t->n_steps - 1]);
    for (int i = 0; i < t->n_steps; i++) {
        const weft_tape_step *s = &t->steps[i];
        bool sum = s->code == WEFT_TAPE_ADD || s->code == WEFT_TAPE_SUB;
        plain = plain && (is_constant(s) || weft__cpu_stage_of(s->code, 0) != CPU_STAGE_COUNT) &&
                !(sum && (product[s->value[0]] || product[s->value[1]]));
        product[t->n_operands + i] = s->code == WEFT_TAPE_MUL || s->code == WEFT_TAPE_NEG;
    }
    return plain;
}

/* Adds one op of a merged tape, whose steps end before `end`. */
static void push_part(cpu_chain *c, const weft_tape_part *part, int end)
{
    const weft_tape *t = part->tape;
    bool real =
        c->type == CPU_F32 || c->type == CPU_F64; /* narrow integers wrap after every step */
    cpu_map *map = real && !is_plain(c, t) ? weft__cpu_find_map(t, c->type, false) : NULL;
    if (map) {
        push(c, map, part->operand, t->n_operands, part->result);
    } else {
        push_steps(c, end - t->n_steps, end);
    }
    if (part->rounding) {
        cpu_convert *const(*convert)[WEFT_DTYPE_COUNT] = weft__cpu_elementwise_table()->convert;
        weft_dtype dtype = part->rounding == WEFT_TAPE_ROUND16 ? WEFT_FLOAT16 : WEFT_BFLOAT16;
        cpu_link *link = &c->links[c->n_links - 1];
        link->rounding = part->rounding;
        link->to = convert[WEFT_FLOAT32][dtype];
        link->fro = convert[dtype][WEFT_FLOAT32];
        link->write = part->result;
    }
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static void place_results(cpu_chain *c)
{
    int last_reader[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS];
    int busy_until[WEFT_TAPE_MAX_STEPS]; /* the last link that reads the slot */
    memset(last_reader, -1, sizeof last_reader);
    for (int i = 0; i < c->n_links; i++) {
        for (int k = 0; k < c->links[i].n_reads; k++) {
            last_reader[c->links[i].read[k]] = i;
        }
    }
    c->n_slots = c->n_constants;
    for (int i = 0; i < c->n_links; i++) {
        int slot = c->n_constants;
        while (slot < c->n_slots && busy_until[slot] > i) { /* a slot last read by this link is
                                                             * reused for its result */
            slot++;
        }
        c->n_slots += slot == c->n_slots;
        c->links[i].slot = (unsigned char)slot;
        busy_until[slot] = last_reader[c->links[i].write];
    }
}

void weft__cpu_chain_prepare(cpu_chain *chain, const weft_tape *tape, cpu_type type, int bits)
{
    static const unsigned char sizes[CPU_TYPE_COUNT] = {4, 8, 4, 4, 8, 8, 1, 8};
    chain->tape = tape;
    chain->type = type;
    chain->bits = bits;
    chain->size = sizes[type];
    chain->n_links = chain->n_constants = 0;
    chain->result = (unsigned char)(tape->n_steps ? tape->n_operands + tape->n_steps - 1 : 0);
    if (tape->n_parts == 0 && tape->n_steps > 0) {
        weft_tape_part whole = {.tape = tape, .result = chain->result};
        for (int i = 0; i < tape->n_operands; i++) {
            whole.operand[i] = (unsigned char)i;
        }
        push_part(chain, &whole, tape->n_steps);
    }
    int end = 0;
    for (int i = 0; i < tape->n_parts; i++) {
        end += tape->parts[i].tape->n_steps;
        push_part(chain, &tape->parts[i], end);
        end += tape->parts[i].rounding != 0;
        chain->result = tape->parts[i].result;
    }
    place_results(chain);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void fill_constant(const cpu_chain *chain, double value, void *to, int64_t n)
{
    float f32 = (float)value;
    int32_t i32 = (int32_t)(int64_t)value;
    int64_t i64 = (int64_t)value;
    uint8_t b8 = value != 0;
    weft_complex64 c64 = {f32, 0};
    const void *const elements[CPU_TYPE_COUNT] = {&f32, &value, &i32, &i32, &i64, &i64, &b8, &c64};
    weft__cpu_walk_splat(to, elements[chain->type], chain->size, n);
}

void weft__cpu_chain_constants(const cpu_chain *chain, char *slots, int64_t block)
{
    for (int i = 0; i < chain->n_constants; i++) {
        const weft_tape_step *s = &chain->tape->steps[chain->constants[i]];
        fill_constant(chain, s->code == WEFT_TAPE_BITS ? chain->bits : s->constant,
                      slots + (size_t)i * (size_t)block * chain->size, block);
    }
}

/* Wraps integers narrower than their compute type, after every step. */
static void wrap(const cpu_chain *chain, void *block, int64_t n)
{
    int spare = 32 - chain->bits;
    if (chain->type == CPU_I32) {
        int32_t *x = block;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (int32_t)((uint32_t)x[i] << spare) >> spare;
        }
    } else {
        uint32_t *x = block;
        for (int64_t i = 0; i < n; i++) {
            x[i] = x[i] << spare >> spare;
        }
    }
}

/* Rounds values as storing and loading them would. */
static void round_values(const cpu_link *link, float *x, int64_t n)
{
    uint16_t narrow[CPU_BLOCK];
    link->to(x, narrow, n);
    link->fro(narrow, x, n);
}

static void run_link(const cpu_chain *chain, const cpu_link *link, const void **values, void *to,
                     int64_t n)
{
    const void *read[WEFT_MAX_OPERANDS];
    for (int k = 0; k < link->n_reads; k++) {
        read[k] = values[link->read[k]];
    }
    link->map(read, to, n, chain->bits);
    if (link->wraps) {
        wrap(chain, to, n);
    }
    if (link->to) {
        round_values(link, to, n);
    }
    values[link->write] = to;
}

void weft__cpu_chain_run(const cpu_chain *chain, const void *const *in, void *out, int64_t n,
                         char *slots, int64_t block)
{
    const size_t slot_bytes = (size_t)block * chain->size;
    const int n_operands = chain->tape->n_operands;
    const void *values[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS];
    memcpy(values, in, (size_t)n_operands * sizeof *in);
    for (int i = 0; i < chain->n_constants; i++) {
        values[n_operands + chain->constants[i]] = slots + (size_t)i * slot_bytes;
    }
    for (int i = 0; i < chain->n_links; i++) {
        const cpu_link *link = &chain->links[i];
        bool last = i == chain->n_links - 1;
        run_link(chain, link, values, last ? out : slots + link->slot * slot_bytes, n);
    }
    if (values[chain->result] != out) {
        memcpy(out, values[chain->result], (size_t)n * chain->size); /* an operand or a constant */
    }
}
