/* tests/ops/test_infer.c -- inputs that each op accepts and refuses: each case of the op table,
 * changed in one property (a dtype, a rank, a length, a parameter), against
 * tests/golden/ops/infer.txt.
 *
 * The file has a line for each op and case, with a character for each change: "!" refused, "."
 * accepted with the outputs of the case as it was, a letter for other outputs (a hash of their
 * specs). It holds what infer functions decided when it was written, and a difference is either a
 * mistake or a decision: WEFT_TEST_WRITE=1 writes the file again, and its diff shows the decision.
 * Whatever is accepted must also evaluate, or fail with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/cases.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/ops.h"

enum { LINE = 8192, MOST = 1 << 16 };

typedef struct trial {
    const weft_op *op;
    const weft_case *c;
    weft_spec in[WEFT_MAX_OPERANDS];
    char params[4096];
    char base[1024];    /* specs of the outputs of the unchanged case */
    const char *change; /* what is changed now */
    const char *wanted; /* the golden line's characters; NULL: written */
    char got[LINE];
    size_t n;
} trial;

static bool must_write(void)
{
    return getenv("WEFT_TEST_WRITE") != NULL;
}

/* ---- one try -------------------------------------------------------------------------------- */

static int64_t size_of(const weft_spec *spec)
{
    int64_t n = 1;
    for (int d = 0; d < spec->shape.n; d++) {
        n = spec->shape.at[d] > MOST || n > MOST ? MOST + 1 : n * spec->shape.at[d];
    }
    return n;
}

static void describe_outputs(const weft_array *node, char *out, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < weft_node_n_outputs(node) && n + 200 < size; i++) {
        const weft_spec *spec = weft_node_spec(node, i);
        n += (size_t)snprintf(out + n, size - n, "%s(", weft_dtype_name(spec->dtype));
        for (int d = 0; d < spec->shape.n; d++) {
            n += (size_t)snprintf(out + n, size - n, "%lld,", (long long)spec->shape.at[d]);
        }
        n += (size_t)snprintf(out + n, size - n, ")%s", spec->encoding ? "e" : "");
    }
}

/* Zeros are valid indices, keys, masks and codes. A singular matrix, say, gives a message. */
static void evaluate(weft_array *node)
{
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        if (size_of(weft_node_spec(node, i)) > MOST) {
            return;
        }
    }
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        const weft_status status = weft_eval(weft_pick(node, i));
        CHECK(status == WEFT_OK || weft_error_message()[0] != '\0');
    }
}

static char outcome(trial *t, const char **why)
{
    weft_array *in[WEFT_MAX_OPERANDS];
    for (int i = 0; i < t->c->n_inputs; i++) {
        in[i] = weft_zeros(t->in[i].shape, t->in[i].dtype);
    }
    weft_array *node = weft_apply(t->op, in, t->c->n_inputs, t->op->params_size ? t->params : NULL);
    if (!weft_ok(node)) {
        *why = weft_error(node);
        return '!';
    }
    static char text[1024];
    text[0] = '\0';
    describe_outputs(node, text, sizeof text);
    *why = text;
    if (!t->base[0]) {
        snprintf(t->base, sizeof t->base, "%s", text);
    }
    evaluate(node);
    unsigned hash = 5381;
    for (const char *c = text; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    return strcmp(text, t->base) == 0 ? '.' : (char)('a' + hash % 26);
}

static void try_it(trial *t, const char *change)
{
    const char *why = "";
    weft_scope_open();
    const char got = outcome(t, &why);
    if (t->wanted && t->n < strlen(t->wanted) && t->wanted[t->n] != got) {
        CHECK_FAIL("%s (%s): change %zu, %s: expected '%c', got '%c': %s", t->op->name,
                   t->c->name ? t->c->name : "case", t->n, change, t->wanted[t->n], got, why);
    } else {
        CHECK(got != '\0');
    }
    weft_scope_close(NULL);
    if (t->n + 1 < sizeof t->got) {
        t->got[t->n++] = got;
    }
}

/* ---- changes -------------------------------------------------------------------------------- */

static void change_input(trial *t, int k)
{
    const weft_spec kept = t->in[k];
    weft_spec *in = &t->in[k];
    char what[80];
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if ((weft_dtype)d != kept.dtype) {
            in->dtype = (weft_dtype)d;
            snprintf(what, sizeof what, "input %d as %s", k, weft_dtype_name((weft_dtype)d));
            try_it(t, what);
        }
    }
    *in = kept;
    for (int d = 0; d < kept.shape.n; d++) {
        static const int64_t by[] = {1, -1, INT64_MIN};
        for (int i = 0; i < 3; i++) {
            const int64_t length = by[i] == INT64_MIN ? 1 : kept.shape.at[d] + by[i];
            if (length >= 0 && length != kept.shape.at[d]) {
                in->shape.at[d] = length;
                snprintf(what, sizeof what, "input %d, dim %d of %lld", k, d, (long long)length);
                try_it(t, what);
                *in = kept;
            }
        }
    }
    if (kept.shape.n < WEFT_MAX_DIMS) {
        in->shape.at[in->shape.n++] = 1;
        snprintf(what, sizeof what, "input %d with one more dim", k);
        try_it(t, what);
        *in = kept;
    }
    if (kept.shape.n > 0) {
        in->shape.n--;
        snprintf(what, sizeof what, "input %d without its last dim", k);
        try_it(t, what);
        *in = kept;
    }
}

static void change_int(trial *t, const weft_field *f, int64_t *value)
{
    const int64_t kept = *value;
    const int64_t to[] = {kept + 1, kept - 1, -kept, 0, 100};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        char what[80];
        *value = to[i];
        snprintf(what, sizeof what, "%s = %lld", f->name, (long long)to[i]);
        if (to[i] != kept) {
            try_it(t, what);
        }
    }
    *value = kept;
}

static void change_field(trial *t, const weft_field *f)
{
    void *at = t->params + f->offset;
    if (f->type == WEFT_FIELD_INT) {
        change_int(t, f, at);
    } else if (f->type == WEFT_FIELD_BOOL) {
        *(bool *)at = !*(bool *)at;
        try_it(t, f->name);
        *(bool *)at = !*(bool *)at;
    } else if (f->type == WEFT_FIELD_DTYPE) {
        const weft_dtype kept = *(weft_dtype *)at;
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
            *(weft_dtype *)at = (weft_dtype)d;
            try_it(t, weft_dtype_name((weft_dtype)d));
        }
        *(weft_dtype *)at = kept;
    } else if (f->type == WEFT_FIELD_DIMS) {
        weft_dims *dims = at;
        const weft_dims kept = *dims;
        for (int d = 0; d < kept.n; d++) {
            change_int(t, f, &dims->at[d]);
        }
        if (kept.n > 0) {
            dims->n--;
            try_it(t, f->name);
        }
        *dims = kept;
    }
}

static bool begin(trial *t, const weft_op *op, const weft_case *c)
{
    weft_dtype dtype = WEFT_FLOAT32;
    for (int d = 0; d < WEFT_DTYPE_COUNT && !case_takes(op, dtype); d++) {
        dtype = (weft_dtype)d;
    }
    weft_array *in[WEFT_MAX_OPERANDS];
    if (op->params_size > sizeof t->params || c->n_inputs > WEFT_MAX_OPERANDS ||
        !case_inputs(op, c, dtype, dtype, CASE_PLAIN, in)) {
        return false;
    }
    t->op = op;
    t->c = c;
    for (int i = 0; i < c->n_inputs; i++) {
        if (weft_encoding_of(in[i])) {
            return false;
        }
        t->in[i] = (weft_spec){.dtype = weft_dtype_of(in[i]), .shape = weft_shape(in[i])};
        if (size_of(&t->in[i]) > 4096) {
            return false;
        }
    }
    memset(t->params, 0, sizeof t->params);
    if (c->params) {
        memcpy(t->params, c->params, op->params_size);
    }
    return true;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const char *wanted_line(const char *golden, const char *key)
{
    static char line[LINE];
    const size_t n = strlen(key);
    for (const char *at = golden; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, key, n) == 0) {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(at + n, "\n"), at + n);
            return line;
        }
    }
    return NULL;
}

static void run_case(const char *golden, const weft_op *op, int i, FILE *out)
{
    static trial t;
    char key[120];
    const weft_case c = case_at(op, i);
    memset(&t, 0, sizeof t);
    weft_scope_open();
    const bool usable = begin(&t, op, &c);
    weft_scope_close(NULL);
    if (!usable) {
        return;
    }
    snprintf(key, sizeof key, "%s/%d ", op->name, i);
    t.wanted = golden ? wanted_line(golden, key) : NULL;
    if (golden && !t.wanted) {
        CHECK_FAIL("%shas no line: WEFT_TEST_WRITE=1 writes it", key);
        return;
    }
    try_it(&t, "nothing");
    for (int k = 0; k < c.n_inputs; k++) {
        change_input(&t, k);
    }
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        change_field(&t, f);
    }
    t.got[t.n] = '\0';
    if (t.wanted) {
        CHECK_EQ_INT(t.n, strlen(t.wanted));
    }
    if (out) {
        fprintf(out, "%s%s\n", key, t.got);
    }
}

static void inference_of_every_op_equals_the_stored_one(void)
{
    const char *path = check_fixture("ops/infer.txt"), *chosen = getenv("WEFT_TEST_OPS");
    char *golden = NULL, name[80];
    FILE *out = must_write() ? fopen(path, "w") : NULL;
    if (!out && !CHECK_OK(weft_file_read(path, 0, &golden, NULL))) {
        return;
    }
    for (int o = 0; o < weft_op_count(); o++) {
        const weft_op *op = weft_op_at(o);
        snprintf(name, sizeof name, ",%s,", op->name);
        for (int i = 0; i < case_count(op) && (!chosen || strstr(chosen, name)); i++) {
            run_case(golden, op, i, out);
        }
    }
    weft_free(golden);
    if (out) {
        fclose(out);
    }
}

CHECK_MAIN("infer", CHECK_CASE(inference_of_every_op_equals_the_stored_one))
