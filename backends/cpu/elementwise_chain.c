/* backends/cpu/elementwise_chain.c -- tapes in several loops over a block: one for each op of a
 * merged tape, by the kernel that the op has when it is computed alone, so that merging changes no
 * bit; one for each step of any other tape. The results between them are in slots that are used
 * again after their last reading, and stay in the L1 cache. */
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

/* The steps [begin, end) of the tape, one by one. */
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

/* One op of a merged tape, whose steps end before `end`. */
static void push_part(cpu_chain *c, const weft_tape_part *part, int end)
{
    const weft_tape *t = part->tape;
    cpu_map *map = weft__cpu_find_map(t, c->type, false);
    if (map) {
        push(c, map, part->operand, t->n_operands, part->result);
        bool plain = t->n_steps == 1 && t->n_operands == 2 && t->steps[0].value[0] == 0 &&
                     t->steps[0].value[1] == 1;
        c->links[c->n_links - 1].step = plain ? &t->steps[0] : NULL;
    } else {
        push_steps(c, end - t->n_steps, end);
    }
    if (part->rounding) {
        cpu_convert *const(*convert)[WEFT_DTYPE_COUNT] = weft__cpu_elementwise_table()->convert;
        weft_dtype dtype = part->rounding == WEFT_TAPE_ROUND16 ? WEFT_FLOAT16 : WEFT_BFLOAT16;
        cpu_link *link = &c->links[c->n_links - 1];
        link->to = convert[WEFT_FLOAT32][dtype];
        link->fro = convert[dtype][WEFT_FLOAT32];
        link->write = part->result;
    }
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* What the link is with operand `k` as the value so far. */
static cpu_run_op run_op(const cpu_chain *c, const cpu_link *link, int k)
{
    static const struct {
        unsigned char code, ops[2];
    } simple[] = {
        {WEFT_TAPE_ADD, {CPU_RUN_ADD, CPU_RUN_ADD}},
        {WEFT_TAPE_SUB, {CPU_RUN_SUB, CPU_RUN_SUB_FROM}},
        {WEFT_TAPE_MUL, {CPU_RUN_MUL, CPU_RUN_MUL}},
        {WEFT_TAPE_MIN, {CPU_RUN_MIN, CPU_RUN_MIN_OF}},
        {WEFT_TAPE_MAX, {CPU_RUN_MAX, CPU_RUN_MAX_OF}},
    };
    const weft_tape_step *s = link->step;
    if (c->type != CPU_F32 || !s || link->to) {
        return CPU_RUN_NONE;
    }
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (simple[i].code == s->code) {
            return (cpu_run_op)simple[i].ops[k];
        }
    }
    return CPU_RUN_NONE;
}

/* Whether the link's only use of `value` is as one operand; which. */
static int operand_of(const cpu_link *link, int value)
{
    int n = 0, at = -1;
    for (int k = 0; k < link->n_reads; k++) {
        n += link->read[k] == value;
        at = link->read[k] == value ? k : at;
    }
    return n == 1 ? at : -1;
}

/* Links that each work on nothing but the result of the one before become a run. */
static void find_runs(cpu_chain *c, const unsigned char *readers)
{
    for (int i = 0; i < c->n_links; i++) {
        cpu_link *first = &c->links[i];
        first->op = (unsigned char)run_op(c, first, 0);
        first->other = first->n_reads > 1 ? first->read[1] : 0;
        int end = i + 1;
        while (first->op && end < c->n_links) {
            cpu_link *next = &c->links[end];
            int value = c->links[end - 1].write, k = operand_of(next, value);
            if (k < 0 || readers[value] != 1 || !run_op(c, next, k)) {
                break;
            }
            next->op = (unsigned char)run_op(c, next, k);
            next->other = next->read[1 - k];
            end++;
        }
        first->run = (unsigned char)(end - i);
        i = end - 1;
    }
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static void place_results(cpu_chain *c)
{
    unsigned char readers[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS] = {0};
    int last_reader[WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS];
    int busy_until[WEFT_TAPE_MAX_STEPS]; /* the last link that reads what the slot holds */
    memset(last_reader, -1, sizeof last_reader);
    for (int i = 0; i < c->n_links; i++) {
        for (int k = 0; k < c->links[i].n_reads; k++) {
            last_reader[c->links[i].read[k]] = i;
            readers[c->links[i].read[k]]++;
        }
    }
    find_runs(c, readers);
    c->n_slots = c->n_constants;
    for (int i = 0; i < c->n_links; i++) {
        int slot = c->n_constants;
        while (slot < c->n_slots && busy_until[slot] > i) { /* what this link reads may go */
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
    if (tape->n_parts == 0) {
        push_steps(chain, 0, tape->n_steps);
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

/* Integers narrower than the type they are computed in wrap after every step. */
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

/* As storing the values and reading them again. */
static void round_values(const cpu_link *link, float *x, int64_t n)
{
    uint16_t narrow[CPU_BLOCK];
    link->to(x, narrow, n);
    link->fro(narrow, x, n);
}

/* The run's links on the first n elements, as many as whole runs of vectors have. */
static int64_t run_links(const cpu_chain *chain, int first, const void **values, void *out,
                         int64_t n)
{
    const cpu_elementwise_table *table = weft__cpu_elementwise_table();
    const cpu_link *links = &chain->links[first];
    cpu_run_step steps[2 * WEFT_TAPE_MAX_STEPS];
    n -= n % table->run_elements;
    for (int i = 0; i < links->run && n > 0; i++) {
        steps[i] = (cpu_run_step){(cpu_run_op)links[i].op, values[links[i].other]};
    }
    if (n > 0) {
        table->run(steps, links->run, values[links->read[0]], out, n);
    }
    return n;
}

/* One link on the elements [begin, n) of the block. */
static void run_link(const cpu_chain *chain, const cpu_link *link, const void **values, char *to,
                     int64_t begin, int64_t n)
{
    const size_t offset = (size_t)begin * chain->size;
    const void *read[WEFT_MAX_OPERANDS];
    for (int k = 0; k < link->n_reads; k++) {
        read[k] = (const char *)values[link->read[k]] + offset;
    }
    link->map(read, to + offset, n - begin, chain->bits);
    if (link->wraps) {
        wrap(chain, to + offset, n - begin);
    }
    if (link->to) {
        round_values(link, (void *)(to + offset), n - begin);
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
    for (int i = 0, run; i < chain->n_links; i += run) {
        run = chain->links[i].run;
        const cpu_link *end = &chain->links[i + run - 1];
        char *result = i + run == chain->n_links ? out : slots + end->slot * slot_bytes;
        int64_t done = run > 1 ? run_links(chain, i, values, result, n) : 0;
        for (int k = i; k < i + run && done < n; k++) {
            const cpu_link *link = &chain->links[k];
            run_link(chain, link, values, link == end ? result : slots + link->slot * slot_bytes,
                     done, n);
        }
        values[end->write] = result;
    }
    if (values[chain->result] != out) {
        memcpy(out, values[chain->result], (size_t)n * chain->size); /* an operand or a constant */
    }
}
