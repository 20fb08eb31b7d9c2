/* backends/cpu/elementwise_program.c -- float chains as programs: one pass over memory, with the
 * previous op's value in registers and other live values in slots of one group each. Ops of more
 * than one stage are called on such slots. */
#include "backends/cpu/elementwise.h"

#include <math.h>
#include <string.h>

enum { VALUES = WEFT_TAPE_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS, NONE = -1 };

typedef struct writer {
    const cpu_chain *chain;
    cpu_program *program;
    const float *number[VALUES]; /* values that are scalars */
    float constants[WEFT_TAPE_MAX_STEPS];
    int x; /* the value in registers, or NONE */
    int readers[VALUES];
    int slot[VALUES]; /* or NONE */
    bool busy[CPU_PROGRAM_SLOTS];
    bool failed; /* the program is too long */
} writer;

/* ---- Stages --------------------------------------------------------------------------------- */

cpu_stage_name weft__cpu_stage_of(unsigned char code, int k)
{
    static const struct {
        unsigned char code, stages[3];
    } plain[] = {
        {WEFT_TAPE_ADD, {CPU_STAGE_ADD, CPU_STAGE_ADD}},
        {WEFT_TAPE_SUB, {CPU_STAGE_SUB, CPU_STAGE_SUB_OF}},
        {WEFT_TAPE_MUL, {CPU_STAGE_MUL, CPU_STAGE_MUL}},
        {WEFT_TAPE_DIV, {CPU_STAGE_DIV, CPU_STAGE_DIV_OF}},
        {WEFT_TAPE_MIN, {CPU_STAGE_MIN, CPU_STAGE_MIN_OF}},
        {WEFT_TAPE_MAX, {CPU_STAGE_MAX, CPU_STAGE_MAX_OF}},
        {WEFT_TAPE_LT, {CPU_STAGE_LT, CPU_STAGE_LT_OF}},
        {WEFT_TAPE_LE, {CPU_STAGE_LE, CPU_STAGE_LE_OF}},
        {WEFT_TAPE_EQ, {CPU_STAGE_EQ, CPU_STAGE_EQ}},
        {WEFT_TAPE_NE, {CPU_STAGE_NE, CPU_STAGE_NE}},
        {WEFT_TAPE_AND, {CPU_STAGE_AND, CPU_STAGE_AND}},
        {WEFT_TAPE_OR, {CPU_STAGE_OR, CPU_STAGE_OR}},
        {WEFT_TAPE_NEG, {CPU_STAGE_NEG}},
        {WEFT_TAPE_ABS, {CPU_STAGE_ABS}},
        {WEFT_TAPE_SQRT, {CPU_STAGE_SQRT}},
        {WEFT_TAPE_NOT, {CPU_STAGE_NOT}},
        {WEFT_TAPE_SELECT, {CPU_STAGE_SELECT, CPU_STAGE_SELECT_FIRST, CPU_STAGE_SELECT_SECOND}},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (plain[i].code == code) {
            return (cpu_stage_name)plain[i].stages[k];
        }
    }
    return CPU_STAGE_COUNT;
}

/* The stage that takes a number for y. For numbers other than NaN and 0, min and max are one
 * instruction. */
static int number_stage(int stage, float y)
{
    bool number = !isnan(y), other_than_0 = number && y != 0;
    if ((stage == CPU_STAGE_MIN && other_than_0) || (stage == CPU_STAGE_MIN_OF && number)) {
        return CPU_STAGE_MIN_PLAIN;
    }
    if ((stage == CPU_STAGE_MAX && other_than_0) || (stage == CPU_STAGE_MAX_OF && number)) {
        return CPU_STAGE_MAX_PLAIN;
    }
    return stage + 1;
}

static cpu_draft *push(writer *w, int stage)
{
    cpu_program *p = w->program;
    w->failed = w->failed || p->n_records == CPU_PROGRAM_RECORDS;
    cpu_draft *draft = &p->records[w->failed ? 0 : p->n_records++];
    *draft = (cpu_draft){.stage = (unsigned char)stage};
    return draft;
}

/* Adds a stage whose y is a value in memory. */
static void push_reading(writer *w, int stage, int value)
{
    cpu_draft *draft = push(w, stage);
    bool slot = w->slot[value] != NONE;
    draft->place = slot ? CPU_IN_SLOT : CPU_IN_OPERAND;
    draft->index = (unsigned char)(slot ? w->slot[value] : value);
}

static void push_number(writer *w, int stage, int value)
{
    push(w, number_stage(stage, *w->number[value]))->number = *w->number[value];
}

/* ---- Where values are stored ----------------------------------------------------------------- */

static void take_slot(writer *w, int value)
{
    int i = 0;
    while (i < CPU_PROGRAM_SLOTS - 1 && w->busy[i]) {
        i++;
    }
    w->failed = w->failed || w->busy[i];
    w->busy[i] = true;
    w->slot[value] = i;
    w->program->n_slots = i < w->program->n_slots ? w->program->n_slots : i + 1;
}

static void give_slot(writer *w, int value)
{
    if (w->slot[value] != NONE) {
        w->busy[w->slot[value]] = false;
        w->slot[value] = NONE;
    }
}

static void store(writer *w)
{
    if (w->slot[w->x] == NONE) {
        take_slot(w, w->x);
        push_reading(w, CPU_STAGE_STORE, w->x);
    }
}

/* Called before the registers get another value: stores x in a slot unless only `uses` uses are
 * left. */
static void save(writer *w, int uses)
{
    bool computed = w->x >= w->chain->tape->n_operands && !w->number[w->x];
    if (computed && w->readers[w->x] > uses) {
        store(w);
    }
}

static void load(writer *w, int value)
{
    if (w->x == value) {
        return;
    }
    if (w->x != NONE) {
        save(w, 0);
    }
    if (w->number[value] && w->slot[value] == NONE) {
        push_number(w, CPU_STAGE_LOAD, value);
    } else {
        push_reading(w, CPU_STAGE_LOAD, value);
    }
    w->x = value;
}

static void load_into_slot(writer *w, int value)
{
    if (w->slot[value] == NONE) {
        load(w, value);
        store(w);
    }
}

/* ---- Links ---------------------------------------------------------------------------------- */

/* Selects the operand to be x: the one in registers, or the first that is not a scalar. */
static int choose_operand(const writer *w, const cpu_link *link)
{
    for (int k = 0; k < link->n_reads; k++) {
        if (link->read[k] == w->x) {
            return k;
        }
    }
    int k = 0;
    while (k < link->n_reads - 1 && w->number[link->read[k]]) {
        k++;
    }
    return k;
}

static int uses_of(const cpu_link *link, int value)
{
    int n = 0;
    for (int k = 0; k < link->n_reads; k++) {
        n += link->read[k] == value;
    }
    return n;
}

static void write_step(writer *w, const cpu_link *link)
{
    int k = choose_operand(w, link);
    for (int i = 0; link->n_reads == 3 && i < 3; i++) {
        if (w->number[link->read[i]]) {
            load_into_slot(w, link->read[i]); /* select takes its other operands only from memory */
        }
    }
    load(w, link->read[k]);
    int uses = uses_of(link, w->x), stage = weft__cpu_stage_of(link->step->code, k);
    bool square = uses == 2 && stage == CPU_STAGE_MUL;
    save(w, uses == 1 || square ? uses : 0);
    if (square || link->n_reads == 1) {
        push(w, square ? CPU_STAGE_SQUARE : stage);
    }
    for (int i = 0; i < link->n_reads && !square; i++) {
        int y = link->read[i];
        if (i != k && w->number[y] && w->slot[y] == NONE) {
            push_number(w, stage, y);
        } else if (i != k) {
            push_reading(w, stage, y);
        }
    }
    w->x = link->write;
}

/* An op that is called has its inputs and its result in slots. */
static void write_call(writer *w, const cpu_link *link)
{
    cpu_program *p = w->program;
    if (w->x != NONE && uses_of(link, w->x) > 0) {
        store(w);
    }
    for (int k = 0; k < link->n_reads; k++) {
        load_into_slot(w, link->read[k]);
    }
    if (w->x != NONE) {
        save(w, 0);
    }
    w->failed = w->failed || p->n_arguments + link->n_reads > CPU_PROGRAM_ARGUMENTS;
    int first = w->failed ? 0 : p->n_arguments;
    for (int k = 0; k < link->n_reads && !w->failed; k++) {
        p->arguments[p->n_arguments++] = (unsigned char)w->slot[link->read[k]];
    }
    w->x = link->write;
    take_slot(w, w->x);
    cpu_draft *draft = push(w, CPU_STAGE_CALL);
    draft->place = CPU_IN_SLOT;
    draft->index = (unsigned char)w->slot[w->x];
    draft->first_argument = (unsigned char)first;
    draft->map = link->map;
}

static void write_link(writer *w, const cpu_link *link)
{
    if (link->step && weft__cpu_stage_of(link->step->code, 0) != CPU_STAGE_COUNT) {
        write_step(w, link);
    } else {
        write_call(w, link);
    }
    if (link->rounding) {
        give_slot(w, w->x); /* x's slot must be valid first */
        push(w, link->rounding == WEFT_TAPE_ROUND16 ? CPU_STAGE_ROUND16 : CPU_STAGE_ROUNDB);
    }
    for (int k = 0; k < link->n_reads; k++) {
        if (--w->readers[link->read[k]] == 0) {
            give_slot(w, link->read[k]);
        }
    }
}

static void prepare_values(writer *w, const float *const *number)
{
    const cpu_chain *c = w->chain;
    const int n_operands = c->tape->n_operands;
    w->x = NONE;
    memset(w->slot, -1, sizeof w->slot);
    memcpy(w->number, number, (size_t)n_operands * sizeof *number);
    for (int i = 0; i < c->n_constants; i++) {
        w->constants[i] = (float)c->tape->steps[c->constants[i]].constant;
        w->number[n_operands + c->constants[i]] = &w->constants[i];
    }
    for (int i = 0; i < c->n_links; i++) {
        for (int k = 0; k < c->links[i].n_reads; k++) {
            w->readers[c->links[i].read[k]]++;
        }
    }
    w->readers[c->result]++;
}

void weft__cpu_program_write(cpu_program *program, const cpu_chain *chain,
                             const float *const *number)
{
    writer w = {.chain = chain, .program = program};
    program->n_records = program->n_arguments = program->n_slots = 0;
    prepare_values(&w, number);
    for (int i = 0; i < chain->n_links && !w.failed; i++) {
        write_link(&w, &chain->links[i]);
    }
    load(&w, chain->result);
    push(&w, CPU_STAGE_STORE)->place = CPU_IN_OUTPUT;
    push(&w, CPU_STAGE_END);
    if (w.failed) {
        program->n_records = 0;
    }
}

/* ---- Running -------------------------------------------------------------------------------- */

void weft__cpu_program_open(cpu_running *r, const cpu_program *program)
{
    const cpu_elementwise_table *table = weft__cpu_elementwise_table();
    r->program = program;
    memset(r->reads, 0, sizeof r->reads);
    for (int i = 0; i < program->n_arguments; i++) {
        r->arguments[i] = r->slots[program->arguments[i]];
    }
    for (int i = 0; i < program->n_records; i++) {
        const cpu_draft *draft = &program->records[i];
        bool slot = draft->place == CPU_IN_SLOT;
        r->records[i] = (cpu_record){
            .stage = table->stages[draft->stage],
            .y = slot ? (char *)r->slots[draft->index] : NULL,
            .mask = slot ? 0 : -1,
            .number = draft->number,
            .map = draft->map,
            .in = &r->arguments[draft->first_argument],
        };
        if (draft->place == CPU_IN_OPERAND) {
            r->reads[draft->index] = true;
        }
    }
}

static void run_groups(cpu_running *r, const void *const *in, void *out, int64_t n, bool early,
                       bool past)
{
    const cpu_elementwise_table *table = weft__cpu_elementwise_table();
    past = past && early && (uintptr_t)out % 64 == 0;
    cpu_ahead ahead = {0};
    for (int i = 0; i < r->program->n_records; i++) {
        const cpu_draft *draft = &r->program->records[i];
        if (draft->place == CPU_IN_OPERAND) {
            r->records[i].y = (char *)(uintptr_t)in[draft->index]; /* which no stage writes to */
        } else if (draft->place == CPU_IN_OUTPUT) {
            r->records[i].y = out;
            r->records[i].stage = table->stages[past ? CPU_STAGE_STREAM : CPU_STAGE_STORE];
        }
    }
    for (int k = 0; early && k < WEFT_TAPE_MAX_OPERANDS; k++) {
        if (r->reads[k]) {
            ahead.at[ahead.n++] = in[k];
        }
    }
    table->run(r->records, n, early ? &ahead : NULL);
}

/* A remainder smaller than a group is computed as a whole group on copies. */
static void run_rest(cpu_running *r, const void *const *in, void *out, int64_t n)
{
    const int64_t group = weft__cpu_elementwise_table()->group;
    const size_t bytes = (size_t)n * sizeof(float);
    const void *copies[WEFT_TAPE_MAX_OPERANDS];
    float result[CPU_CHAIN_BLOCK];
    for (int k = 0; k < WEFT_TAPE_MAX_OPERANDS; k++) {
        if (r->reads[k]) {
            memcpy(r->rest[k], in[k], bytes);
            memset(r->rest[k] + n, 0, (size_t)(group - n) * sizeof(float));
            copies[k] = r->rest[k];
        }
    }
    run_groups(r, copies, result, group, false, false);
    memcpy(out, result, bytes);
}

void weft__cpu_program_run(cpu_running *r, const void *const *in, void *out, int64_t n, bool early,
                           bool past)
{
    const int64_t rest = n % weft__cpu_elementwise_table()->group, whole = n - rest;
    if (whole > 0) {
        run_groups(r, in, out, whole, early, past);
    }
    if (rest > 0) {
        const void *from[WEFT_TAPE_MAX_OPERANDS];
        for (int k = 0; k < WEFT_TAPE_MAX_OPERANDS; k++) {
            from[k] = r->reads[k] ? (const float *)in[k] + whole : NULL;
        }
        run_rest(r, from, (float *)out + whole, rest);
    }
}
