/* backends/cpu/elementwise_chain.c -- tapes step by step: one vector loop over a block per step,
 * the results between them in slots that are used again after their last reading. Slower than a
 * kernel that was generated for the whole tape, which tests hold it equal to. */
#include "backends/cpu/elementwise.h"

#include <string.h>

static bool is_constant(const weft_tape_step *step)
{
    return step->code == WEFT_TAPE_CONST || step->code == WEFT_TAPE_BITS;
}

/* The last step that reads value `v`. */
static int last_reader(const weft_tape *t, int v)
{
    int last = -1;
    for (int i = 0; i < t->n_steps; i++) {
        for (int k = 0; k < weft_tape_arity((weft_tape_code)t->steps[i].code); k++) {
            last = t->steps[i].value[k] == v ? i : last;
        }
    }
    return last;
}

void weft__cpu_chain_prepare(cpu_chain *chain, const weft_tape *tape, cpu_type type, int bits)
{
    static const unsigned char sizes[CPU_TYPE_COUNT] = {4, 8, 4, 4, 8, 8, 1, 8};
    *chain = (cpu_chain){.tape = tape, .type = type, .bits = bits, .size = sizes[type]};
    int busy_until[WEFT_TAPE_MAX_STEPS]; /* the last step that reads what the slot holds */
    for (int i = 0; i < tape->n_steps; i++) {
        int slot = 0;
        while (slot < chain->n_slots && busy_until[slot] >= i) {
            slot++;
        }
        bool constant = is_constant(&tape->steps[i]);
        if (constant) {
            slot = chain->n_slots; /* filled before the first step: never shared */
        }
        chain->n_slots += slot == chain->n_slots;
        chain->slot[i] = (unsigned char)slot;
        busy_until[slot] = constant ? WEFT_TAPE_MAX_STEPS : last_reader(tape, tape->n_operands + i);
    }
}

size_t weft__cpu_chain_slot_bytes(const cpu_chain *chain)
{
    return CPU_CHAIN_BLOCK * chain->size;
}

static void fill_constant(const cpu_chain *chain, double value, void *to)
{
    float f32 = (float)value;
    int32_t i32 = (int32_t)(int64_t)value;
    int64_t i64 = (int64_t)value;
    uint8_t b8 = value != 0;
    weft_complex64 c64 = {f32, 0};
    const void *const elements[CPU_TYPE_COUNT] = {&f32, &value, &i32, &i32, &i64, &i64, &b8, &c64};
    weft__cpu_walk_splat(to, elements[chain->type], chain->size, CPU_CHAIN_BLOCK);
}

void weft__cpu_chain_constants(const cpu_chain *chain, char *slots)
{
    for (int i = 0; i < chain->tape->n_steps; i++) {
        const weft_tape_step *s = &chain->tape->steps[i];
        if (is_constant(s)) {
            fill_constant(chain, s->code == WEFT_TAPE_BITS ? chain->bits : s->constant,
                          slots + chain->slot[i] * weft__cpu_chain_slot_bytes(chain));
        }
    }
}

/* Integers narrower than the type they are computed in wrap after every step. */
static void wrap(const cpu_chain *chain, void *block, int64_t n)
{
    int spare = 32 - chain->bits;
    if (chain->type == CPU_I32 && spare > 0) {
        int32_t *x = block;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (int32_t)((uint32_t)x[i] << spare) >> spare;
        }
    } else if (chain->type == CPU_U32 && spare > 0) {
        uint32_t *x = block;
        for (int64_t i = 0; i < n; i++) {
            x[i] = x[i] << spare >> spare;
        }
    }
}

void weft__cpu_chain_run(const cpu_chain *chain, const void *const *in, void *out, int64_t n,
                         char *slots)
{
    const weft_tape *t = chain->tape;
    const cpu_elementwise_table *table = weft__cpu_elementwise_table();
    size_t slot_bytes = weft__cpu_chain_slot_bytes(chain);
    const void *values[WEFT_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS];
    for (int i = 0; i < t->n_operands; i++) {
        values[i] = in[i];
    }
    for (int i = 0; i < t->n_steps; i++) {
        const weft_tape_step *s = &t->steps[i];
        void *to = slots + chain->slot[i] * slot_bytes;
        if (!is_constant(s)) {
            to = i == t->n_steps - 1 ? out : to;
            const void *read[3];
            for (int k = 0; k < 3; k++) {
                read[k] = values[s->value[k]];
            }
            table->steps[s->code][chain->type](read, to, n, chain->bits);
            wrap(chain, to, n);
        }
        values[t->n_operands + i] = to;
    }
    const void *result = values[t->n_steps ? t->n_operands + t->n_steps - 1 : 0];
    if (result != out) {
        memcpy(out, result, (size_t)n * chain->size); /* an operand or a constant */
    }
}
