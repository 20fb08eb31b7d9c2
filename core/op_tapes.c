/* core/op_tapes.c -- the tapes of elementwise ops, parsed on first use. */
#include <pthread.h>
#include <string.h>

#include "weft/backend.h"

enum { TABLE = 1024 }; /* more than all ops times classes */

typedef struct tape_entry {
    const weft_op *op;
    weft_class klass;
    weft_tape *tape; /* NULL: the op has no formula of this class */
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

static tape_entry *find(const weft_op *op, weft_class klass)
{
    size_t at = ((uintptr_t)op >> 4) * 4 + (size_t)klass;
    for (int probe = 0; probe < TABLE; probe++) {
        tape_entry *e = &tapes.entries[(at + (size_t)probe) % TABLE];
        if (!e->op || (e->op == op && e->klass == klass)) {
            return e;
        }
    }
    return NULL;
}

/* Tapes live as long as the process: they belong to literals that do. */
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

const weft_tape *weft_op_tape(const weft_op *op, weft_dtype dtype)
{
    weft_class klass = weft_dtype_class(dtype);
    pthread_mutex_lock(&tapes.lock);
    tape_entry *e = find(op, klass);
    const weft_tape *tape = NULL;
    if (e && e->op) {
        tape = e->tape;
    } else if (e && tapes.count < TABLE / 2) {
        weft_tape *parsed = parse(op, klass);
        tape = parsed;
        if (parsed || !formula_of(op, klass)) { /* no memory now may be memory later */
            *e = (tape_entry){op, klass, parsed};
            tapes.count++;
        }
    }
    pthread_mutex_unlock(&tapes.lock);
    return tape;
}
