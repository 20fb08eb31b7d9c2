/* core/params.c -- comparing, hashing and printing parameter structs by their field tables; the
 * table of ops. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/builtin.h"
#include "core/hash.h"
#include "core/shape.h"

bool weft_because(weft_why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}

static const void *at(const void *params, const weft_field *f)
{
    return (const char *)params + f->offset;
}

static bool field_equal(const weft_field *f, const void *a, const void *b)
{
    switch (f->type) {
    case WEFT_FIELD_INT:
        return *(const int64_t *)a == *(const int64_t *)b;
    case WEFT_FIELD_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case WEFT_FIELD_DOUBLE: /* compared by bits: NaN equals itself, -0 differs from 0 */
        return memcmp(a, b, sizeof(double)) == 0;
    case WEFT_FIELD_DTYPE:
        return *(const weft_dtype *)a == *(const weft_dtype *)b;
    case WEFT_FIELD_DIMS:
        return weft__shape_equal(a, b);
    case WEFT_FIELD_POINTER:
        return *(void *const *)a == *(void *const *)b;
    case WEFT_FIELD_END:
        break;
    }
    return true;
}

bool weft_params_equal(const weft_op *op, const void *a, const void *b)
{
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        if (!field_equal(f, at(a, f), at(b, f))) {
            return false;
        }
    }
    return true;
}

static uint64_t field_hash(uint64_t hash, const weft_field *f, const void *value)
{
    uint64_t word = 0;
    switch (f->type) {
    case WEFT_FIELD_INT:
    case WEFT_FIELD_DOUBLE:
        memcpy(&word, value, sizeof word);
        break;
    case WEFT_FIELD_BOOL:
        word = *(const bool *)value;
        break;
    case WEFT_FIELD_DTYPE:
        word = (uint64_t) * (const weft_dtype *)value;
        break;
    case WEFT_FIELD_POINTER:
        word = (uint64_t)(uintptr_t) * (void *const *)value;
        break;
    case WEFT_FIELD_DIMS: {
        const weft_dims *dims = value;
        for (int i = 0; i < dims->n; i++) {
            hash = weft__mix(hash, (uint64_t)dims->at[i]);
        }
        word = (uint64_t)dims->n;
        break;
    }
    case WEFT_FIELD_END:
        break;
    }
    return weft__mix(hash, word);
}

uint64_t weft_params_hash(const weft_op *op, const void *params)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        hash = field_hash(hash, f, at(params, f));
    }
    return hash;
}

static void field_print(const weft_field *f, const void *value, char *out, size_t size)
{
    char shape[WEFT_SHAPE_TEXT];
    switch (f->type) {
    case WEFT_FIELD_INT:
        snprintf(out, size, "%lld", (long long)*(const int64_t *)value);
        break;
    case WEFT_FIELD_BOOL:
        snprintf(out, size, "%s", *(const bool *)value ? "true" : "false");
        break;
    case WEFT_FIELD_DOUBLE:
        snprintf(out, size, "%g", *(const double *)value);
        break;
    case WEFT_FIELD_DTYPE:
        snprintf(out, size, "%s", weft_dtype_name(*(const weft_dtype *)value));
        break;
    case WEFT_FIELD_DIMS: /* n < 0: all axes */
        snprintf(out, size, "%s",
                 ((const weft_dims *)value)->n < 0 ? "all" : weft__shape_text(value, shape));
        break;
    case WEFT_FIELD_POINTER:
        snprintf(out, size, "%s", *(void *const *)value ? "set" : "null");
        break;
    case WEFT_FIELD_END:
        break;
    }
}

void weft_params_print(const weft_op *op, const void *params, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        char value[WEFT_SHAPE_TEXT] = "";
        field_print(f, at(params, f), value, sizeof value);
        int n = snprintf(out + length, size - length, "%s%s=%s", length ? " " : "", f->name, value);
        if (n < 0 || (size_t)n >= size - length) {
            return;
        }
        length += (size_t)n;
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

enum { MAX_REGISTERED = 256 };

static struct {
    pthread_mutex_t lock;
    const weft_op *ops[MAX_REGISTERED];
    int count;
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock held. */
static const weft_op *op_at(int i)
{
    return i < weft__op_table_size ? weft__op_table[i] : registered.ops[i - weft__op_table_size];
}

static const weft_op *find(const char *name)
{
    for (int i = weft__op_table_size + registered.count - 1; i >= 0; i--) {
        if (strcmp(op_at(i)->name, name) == 0) {
            return op_at(i);
        }
    }
    return NULL;
}

int weft_op_count(void)
{
    pthread_mutex_lock(&registered.lock);
    int count = weft__op_table_size + registered.count;
    pthread_mutex_unlock(&registered.lock);
    return count;
}

const weft_op *weft_op_at(int i)
{
    pthread_mutex_lock(&registered.lock);
    bool present = i >= 0 && i < weft__op_table_size + registered.count;
    const weft_op *op = present ? op_at(i) : NULL;
    pthread_mutex_unlock(&registered.lock);
    return op;
}

const weft_op *weft_op_find(const char *name)
{
    pthread_mutex_lock(&registered.lock);
    const weft_op *op = find(name);
    pthread_mutex_unlock(&registered.lock);
    return op;
}

/* What is wrong with an op's literal, or NULL. */
static const char *fault(const weft_op *op)
{
    if (!op->name) {
        return "expected a name";
    }
    if (op->family == WEFT_ELEMENTWISE && (op->arity < 1 || op->arity > 4)) {
        return "expected an elementwise op of 1 to 4 inputs";
    }
    if (abs(op->n_outputs) > WEFT_MAX_OUTPUTS) {
        return "expected at most 16 outputs";
    }
    if (op->family != WEFT_ELEMENTWISE && !op->infer) {
        return "expected infer";
    }
    return NULL;
}

weft_status weft_op_register(const weft_op *op)
{
    const char *why = fault(op);
    pthread_mutex_lock(&registered.lock);
    if (!why && find(op->name)) {
        why = "the name is taken";
    }
    bool room = registered.count < MAX_REGISTERED;
    if (!why && room) {
        registered.ops[registered.count++] = op;
    }
    pthread_mutex_unlock(&registered.lock);
    if (why) {
        return weft_fail(WEFT_INVALID, "op_register: %s: %s", op->name ? op->name : "(no name)",
                         why);
    }
    return room ? WEFT_OK
                : weft_fail(WEFT_UNSUPPORTED, "op_register: %s: more than %d ops", op->name,
                            MAX_REGISTERED);
}
