/* tests/compile/test_failed_steps.c -- compiled calls and weft_update that fail while they run: no
 * slot changes, and data that was not overwritten is intact.
 *
 * A slot may lose its elements only if a kernel wrote to its memory before the failure; reading it
 * then fails. It never holds other numbers than before.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/indexing.h"
#include "weft/ops.h"

enum { SLOTS = 3, ROWS = 8, COLUMNS = 4, TAKEN = 3, MOST_STEPS = 5 };
enum { SIZE = ROWS * COLUMNS };

static weft_array *evaluated(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

static weft_array *matrix(int64_t rows, double first)
{
    weft_array *x = weft_arange(first, first + (double)(rows * COLUMNS), 1, WEFT_FLOAT32);
    return evaluated(weft_reshape(x, WEFT_DIMS(rows, COLUMNS)));
}

/* TAKEN row numbers, the last of which is out of range when `bad`. */
static weft_array *indices(bool bad)
{
    const int32_t at[] = {5, 0, bad ? ROWS : 2};
    return weft_from_data(at, WEFT_INT32, WEFT_DIMS(TAKEN));
}

/* ---- random steps --------------------------------------------------------------------------- */

typedef struct step {
    int slot, kind;
} step;

/* Steps over slots: each slot's new value is set at the end of the function. */
typedef struct program {
    weft_array *slots[SLOTS];
    step steps[MOST_STEPS];
    int n;
} program;

enum { SCALE, ADD_AT, ADD_TAKEN, PUT, ADD_OTHER, KINDS };

static bool can_fail(int kind)
{
    return kind == ADD_AT || kind == ADD_TAKEN || kind == PUT;
}

static void apply(const program *p, weft_array *const *in, weft_array **values)
{
    for (int i = 0; i < SLOTS; i++)
        values[i] = p->slots[i];
    for (int i = 0; i < p->n; i++) {
        weft_array **v = &values[p->steps[i].slot];
        switch (p->steps[i].kind) {
        case SCALE:
            *v = weft_add_scalar(weft_scale(*v, 2), 1);
            break;
        case ADD_AT:
            *v = weft_scatter_add(*v, in, 1, weft_expand_dims(in[1], 1), WEFT_DIMS(0));
            break;
        case ADD_TAKEN:
            *v = weft_add(*v, weft_sum(weft_take(*v, in[0], 0), WEFT_ALL_AXES, false));
            break;
        case PUT: {
            weft_array *columns =
                weft_broadcast_to(weft_expand_dims(in[0], 1), WEFT_DIMS(TAKEN, COLUMNS));
            *v = weft_put_along_axis(*v, columns, in[1], 0);
            break;
        }
        default:
            *v = weft_add(*v, values[(p->steps[i].slot + 1) % SLOTS]);
            break;
        }
    }
}

static int call_step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    program *p = context;
    weft_array *values[SLOTS];
    (void)n_in;
    (void)room;
    apply(p, in, values);
    out[0] = weft_sum(values[0], WEFT_ALL_AXES, false);
    for (int i = 0; i < SLOTS; i++)
        (void)weft_set(&p->slots[i], values[i]);
    return 1;
}

static void set_slots(program *p)
{
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(weft_set(&p->slots[i], matrix(ROWS, 100 * i)));
}

static void drop_slots(program *p)
{
    for (int i = 0; i < SLOTS; i++)
        weft_drop(p->slots[i]);
}

static program random_program(unsigned seed)
{
    program p = {.n = 1 + (int)(seed % MOST_STEPS)};
    for (int i = 0; i < p.n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p.steps[i] = (step){(int)(seed >> 8) % SLOTS, (int)(seed >> 16) % KINDS};
    }
    set_slots(&p);
    return p;
}

static bool program_fails(const program *p)
{
    bool fails = false;
    for (int i = 0; i < p->n; i++)
        fails = fails || can_fail(p->steps[i].kind);
    return fails;
}

/* After a failed call: how many slots have the elements from before; the others cannot be read. */
static int intact_slots(const program *p, weft_array *const *before, float want[SLOTS][SIZE])
{
    int n = 0;
    for (int i = 0; i < SLOTS; i++) {
        float got[SIZE];
        CHECK(p->slots[i] == before[i]);
        if (weft_read(p->slots[i], WEFT_FLOAT32, got, SIZE) == WEFT_OK) {
            n++;
            CHECK_BYTES(got, want[i], sizeof got);
        } else {
            CHECK_CONTAINS(weft_error_message(), "out of range");
        }
    }
    return n;
}

static void read_slots(const program *p, float out[SLOTS][SIZE])
{
    for (int i = 0; i < SLOTS; i++)
        CHECK_OK(weft_read(p->slots[i], WEFT_FLOAT32, out[i], SIZE));
}

/* After a failed update: a value that can be read is what it would be by itself. */
static void check_values(const program *before, weft_array *const *in, weft_array *const *values)
{
    weft_array *again[SLOTS];
    apply(before, in, again);
    for (int i = 0; i < SLOTS; i++) {
        float got[SIZE], want[SIZE];
        if (weft_read(values[i], WEFT_FLOAT32, got, SIZE) == WEFT_OK) {
            CHECK_OK(weft_read(again[i], WEFT_FLOAT32, want, SIZE));
            CHECK_BYTES(got, want, sizeof got);
        }
    }
}

/* A call with these indices; compiled (c), or by weft_update (NULL). */
static weft_status run_once(weft_compiled *c, program *p, bool bad)
{
    weft_array *in[] = {indices(bad), matrix(TAKEN, 0.5)}, *out, *values[SLOTS];
    weft_array **slots[SLOTS];
    if (c)
        return weft_compiled_call(c, in, 2, &out, 1);
    for (int i = 0; i < SLOTS; i++)
        slots[i] = &p->slots[i];
    program copy = *p;
    for (int i = 0; i < SLOTS; i++)
        copy.slots[i] = evaluated(weft_copy(p->slots[i]));
    apply(p, in, values);
    const weft_status status = weft_update(slots, values, SLOTS);
    if (status != WEFT_OK)
        check_values(&copy, in, values);
    return status;
}

/* One failing call between two that succeed, where all slots survive it; as many succeed. */
static void fail_in_between(unsigned seed, bool compiled, int *failures, int *survivors)
{
    program p = random_program(seed), q = random_program(seed);
    weft_compiled *c = NULL, *d = NULL;
    weft_array **state[SLOTS], **other[SLOTS], *before[SLOTS];
    float want[SLOTS][SIZE], got[SLOTS][SIZE];
    for (int i = 0; i < SLOTS; i++) {
        state[i] = &p.slots[i];
        other[i] = &q.slots[i];
    }
    if (compiled) {
        CHECK_OK(weft_compile(call_step, &p, state, SLOTS, NULL, &c));
        CHECK_OK(weft_compile(call_step, &q, other, SLOTS, NULL, &d));
    }
    weft_scope_open(); /* the leaves of set_slots are no longer temporaries */
    CHECK_OK(run_once(c, &p, false));
    weft_scope_close(NULL);
    memcpy(before, p.slots, sizeof before);
    read_slots(&p, want);
    weft_scope_open();
    const weft_status status = run_once(c, &p, true);
    weft_scope_close(NULL);
    if (program_fails(&p)) {
        CHECK_STATUS(status, WEFT_INVALID);
        const int n = intact_slots(&p, before, want);
        CHECK(n == SLOTS || !can_fail(p.steps[0].kind));
        *failures += 1;
        *survivors += n;
        if (n == SLOTS) {
            weft_scope_open();
            CHECK_OK(run_once(c, &p, false));
            CHECK_OK(run_once(d, &q, false));
            CHECK_OK(run_once(d, &q, false));
            read_slots(&p, got);
            read_slots(&q, want);
            CHECK_BYTES(got, want, sizeof got);
            weft_scope_close(NULL);
        }
    } else {
        CHECK_OK(status);
    }
    weft_compiled_free(c);
    weft_compiled_free(d);
    drop_slots(&p);
    drop_slots(&q);
}

static void no_failure_changes_a_slot(void)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        int failures = 0, survivors = 0;
        for (unsigned seed = 0; seed < 400; seed++) {
            weft_scope_open();
            fail_in_between(seed * 7919u + 5, compiled, &failures, &survivors);
            weft_scope_close(NULL);
        }
        CHECK(failures > 150);
        CHECK(survivors > 2 * failures); /* of three slots each */
    }
}

/* ---- reported cases ------------------------------------------------------------------------- */

static program simple(int n, const step *steps)
{
    program p = {.n = n};
    memcpy(p.steps, steps, (size_t)n * sizeof *steps);
    set_slots(&p);
    return p;
}

/* The state is donated: a good call before the failure makes it memory of the program, and lean
 * scopes let steps overwrite it. */
static void fail_once(program *p, bool compiled, int intact)
{
    weft_compiled *c = NULL;
    weft_array **state[SLOTS], *before[SLOTS];
    float want[SLOTS][SIZE];
    for (int i = 0; i < SLOTS; i++)
        state[i] = &p->slots[i];
    if (compiled)
        CHECK_OK(weft_compile(call_step, p, state, SLOTS, NULL, &c));
    weft_scope_open_lean();
    CHECK_OK(run_once(c, p, false));
    weft_scope_close(NULL);
    memcpy(before, p->slots, sizeof before);
    read_slots(p, want);
    weft_scope_open_lean();
    CHECK_STATUS(run_once(c, p, true), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "index 8 is out of range for an axis of size 8");
    weft_scope_close(NULL);
    CHECK_EQ_INT(intact_slots(p, before, want), intact);
    weft_compiled_free(c);
    drop_slots(p);
}

static void a_bad_index_in_front_leaves_all_state(void)
{
    static const step steps[] = {{0, ADD_TAKEN}, {1, SCALE}, {2, SCALE}};
    for (int compiled = 0; compiled < 2; compiled++) {
        weft_scope_open();
        program p = simple(3, steps);
        fail_once(&p, compiled, SLOTS);
        weft_scope_close(NULL);
    }
}

static void a_bad_index_into_donated_state_leaves_it(void)
{
    static const step steps[] = {{0, ADD_AT}, {1, PUT}, {2, SCALE}};
    for (int compiled = 0; compiled < 2; compiled++) {
        weft_scope_open();
        program p = simple(3, steps);
        fail_once(&p, compiled, SLOTS);
        weft_scope_close(NULL);
    }
}

/* Slot 0 is overwritten before the bad index of slot 1 is seen: it is lost, and reading it reports
 * that. */
static void what_was_overwritten_cannot_be_read(void)
{
    static const step steps[] = {{0, SCALE}, {1, ADD_AT}, {2, SCALE}};
    for (int compiled = 0; compiled < 2; compiled++) {
        weft_scope_open();
        program p = simple(3, steps);
        fail_once(&p, compiled, SLOTS - 1);
        weft_scope_close(NULL);
    }
}

/* ---- without memory, and with a bad index --------------------------------------------------- */

static void a_bad_index_without_memory_leaves_all_state(void)
{
    static const step steps[] = {{0, ADD_AT}, {1, SCALE}, {2, ADD_OTHER}};
    for (int compiled = 0; compiled < 2; compiled++) {
        int quiet = 0;
        for (uint64_t nth = 1; quiet < 30 && nth < 3000; nth++) {
            weft_scope_open();
            program p = simple(3, steps);
            weft_compiled *c = NULL;
            weft_array **state[SLOTS], *before[SLOTS];
            float want[SLOTS][SIZE];
            for (int i = 0; i < SLOTS; i++)
                state[i] = &p.slots[i];
            if (compiled)
                CHECK_OK(weft_compile(call_step, &p, state, SLOTS, NULL, &c));
            weft_scope_open();
            CHECK_OK(run_once(c, &p, false));
            weft_scope_close(NULL);
            memcpy(before, p.slots, sizeof before);
            read_slots(&p, want);
            weft_scope_open();
            weft_array *in[] = {indices(true), matrix(TAKEN, 0.5)}, *values[SLOTS], *out;
            weft_memory_fail_at(nth);
            weft_status status;
            if (compiled) {
                status = weft_compiled_call(c, in, 2, &out, 1);
            } else {
                apply(&p, in, values);
                status = weft_update(state, values, SLOTS);
            }
            weft_memory_fail_at(0);
            CHECK(status == WEFT_INVALID || status == WEFT_MEMORY);
            quiet = status == WEFT_MEMORY ? 0 : quiet + 1;
            weft_scope_close(NULL);
            CHECK_EQ_INT(intact_slots(&p, before, want), SLOTS);
            weft_compiled_free(c);
            drop_slots(&p);
            weft_scope_close(NULL);
        }
        CHECK(quiet == 30);
    }
}

/* ---- queued calls --------------------------------------------------------------------------- */

/* A queued call returns before its kernels run: reading a slot gives the failure, or the elements.
 */
static void a_queued_call_that_fails_is_reported_to_the_reader(void)
{
    static const step steps[] = {{0, ADD_AT}, {1, SCALE}, {2, SCALE}};
    weft_scope_open();
    program p = simple(3, steps);
    weft_compiled *c;
    weft_array **state[SLOTS];
    float got[SIZE];
    for (int i = 0; i < SLOTS; i++)
        state[i] = &p.slots[i];
    CHECK_OK(weft_compile(call_step, &p, state, SLOTS, &(weft_compile_options){.async = true}, &c));
    CHECK_OK(run_once(c, &p, false));
    CHECK_OK(run_once(c, &p, true));
    CHECK(weft_read(p.slots[0], WEFT_FLOAT32, got, SIZE) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), "out of range");
    weft_compiled_free(c);
    drop_slots(&p);
    weft_scope_close(NULL);
}

CHECK_MAIN("failed_steps", CHECK_CASE(a_bad_index_in_front_leaves_all_state),
           CHECK_CASE(a_bad_index_into_donated_state_leaves_it),
           CHECK_CASE(what_was_overwritten_cannot_be_read), CHECK_CASE(no_failure_changes_a_slot),
           CHECK_CASE(a_bad_index_without_memory_leaves_all_state),
           CHECK_CASE(a_queued_call_that_fails_is_reported_to_the_reader))
