/* core/op_tapes.c -- the tapes of elementwise ops, parsed on first use. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/graph.h"
#include "weft/backend.h"

enum { TABLE = 4096 }; /* more than twice the number of ops times classes */

/* Entries never change once set, so readers need no lock. `op` is written last. */
typedef struct tape_entry {
    _Atomic(const weft_op *) op;
    weft_class klass;
    const weft_tape *tape; /* NULL: the op has no formula of this class */
} tape_entry;

static struct {
    pthread_mutex_t lock;
    tape_entry entries[TABLE];
    int count;
} tapes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *formula_of(const weft_op *op, weft_class klass)
{
    switch (klass) {
    case WEFT_CLASS_REAL:
        return op->formula.real;
    case WEFT_CLASS_INTEGER:
        return op->formula.integer;
    case WEFT_CLASS_BOOL:
        return op->formula.boolean;
    case WEFT_CLASS_COMPLEX:
        return op->formula.complex_;
    case WEFT_CLASS_COUNT:
        break;
    }
    return NULL;
}

/* The slot where the search for an entry begins. */
static size_t place(const weft_op *op, weft_class klass)
{
    return (((uintptr_t)op >> 4) * 4 + (size_t)klass) % TABLE;
}

/* The entry, or the free slot where it belongs, or NULL. */
static tape_entry *find(const weft_op *op, weft_class klass, bool *found)
{
    const size_t at = place(op, klass);
    for (int probe = 0; probe < TABLE; probe++) {
        tape_entry *e = &tapes.entries[(at + (size_t)probe) % TABLE];
        const weft_op *here = atomic_load_explicit(&e->op, memory_order_acquire);
        *found = here == op && e->klass == klass;
        if (!here || *found) {
            return e;
        }
    }
    *found = false;
    return NULL;
}

/* Tapes are never freed; they belong to op literals, which are static. */
static weft_tape *parse(const weft_op *op, weft_class klass)
{
    const char *formula = formula_of(op, klass);
    weft_tape *tape = formula ? weft_malloc(sizeof *tape) : NULL;
    char why[256];
    if (tape && !weft_tape_parse(formula, klass, op->arity, tape, why, sizeof why)) {
        weft_log_message(WEFT_LOG_WARNING, "op %s: formula: %s", op->name, why);
        weft_free(tape);
        tape = NULL;
    }
    return tape;
}

static const weft_tape *find_or_parse(const weft_op *op, weft_class klass)
{
    bool found;
    tape_entry *e = find(op, klass, &found);
    if (found || !e || tapes.count == TABLE / 2) {
        return found ? e->tape : NULL;
    }
    weft_tape *tape = parse(op, klass);
    if (tape || !formula_of(op, klass)) { /* an allocation that failed is tried again later */
        e->klass = klass;
        e->tape = tape;
        atomic_store_explicit(&e->op, op, memory_order_release);
        tapes.count++;
    }
    return tape;
}

bool weft__has_formula(const weft_op *op, weft_dtype dtype)
{
    return formula_of(op, weft_dtype_class(dtype)) != NULL;
}

const weft_tape *weft_op_tape(const weft_op *op, weft_dtype dtype)
{
    weft_class klass = weft_dtype_class(dtype);
    bool found;
    const tape_entry *e = &tapes.entries[place(op, klass)]; /* mostly */
    if (atomic_load_explicit(&e->op, memory_order_acquire) == op && e->klass == klass) {
        return e->tape;
    }
    e = find(op, klass, &found);
    if (found) {
        return e->tape;
    }
    pthread_mutex_lock(&tapes.lock);
    const weft_tape *tape = find_or_parse(op, klass);
    pthread_mutex_unlock(&tapes.lock);
    return tape;
}
