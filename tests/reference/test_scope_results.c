/* tests/reference/test_scope_results.c -- public functions of arrays leave only their results in
 * the caller's scope. */
#include "tests/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

static bool makes_arrays(const char *name, size_t length)
{
    for (int i = 0; i < line_count(); i++) {
        const line *l = line_at(i);
        if (l->n_out > 0 && strlen(l->name) == length && strncmp(l->name, name, length) == 0)
            return true;
    }
    return false;
}

/* Calls in the line that make arrays: one of a line that shows one function. */
static int calls_in(const char *text)
{
    int n = 0;
    for (const char *at = strstr(text, "weft_"); at != NULL; at = strstr(at + 1, "weft_")) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        bool scalar = strncmp(at, "weft_scalar(", 12) == 0 ||
                      strncmp(at, "weft_scalar_int(", 16) == 0 ||
                      strncmp(at, "weft_from_data(", 15) == 0;
        n += at[length] == '(' && (scalar || makes_arrays(at, length));
    }
    return n;
}

/* Arrays that the line left in the scope it was called in, but for its results. */
static int64_t left_behind(const line *l, weft_array *const *in, int n_in, line_call *call)
{
    weft_array *out[MAX_RESULTS] = {NULL};
    weft_scope_open();
    line_function(call, in, n_in, out, l->n_out);
    int64_t left = weft_scope_count();
    bool ok = true;
    for (int i = 0; i < l->n_out; i++) {
        bool again = out[i] == NULL;
        for (int k = 0; k < i; k++)
            again = again || out[k] == out[i];
        for (int k = 0; k < n_in; k++)
            again = again || in[k] == out[i];
        left -= !again;
        ok = ok && weft_ok(out[i]);
        if (out[i] != NULL && !weft_ok(out[i]) && strstr(weft_error(out[i]), "released"))
            CHECK_FAIL("%s: result %d: %s", l->name, i, weft_error(out[i]));
    }
    weft_scope_close(NULL);
    return ok ? left : 0; /* failures may leave the node that was refused */
}

static void lines_leave_only_their_results(void)
{
    static char leaving[1 << 17];
    size_t length = 0;
    int counted = 0;
    /* Some lines write files. */
    if (!CHECK(chdir(check_temporary("")) == 0))
        return;
    for (int i = 0; i < line_count(); i++) {
        const line *l = line_at(i);
        line_input inputs[MAX_INPUTS];
        weft_array *in[MAX_INPUTS];
        int n = l->n_out > 0 ? line_inputs(l, inputs) : -1;
        if (n < 0)
            continue;
        weft_scope_open();
        int calls = calls_in(l->text);
        for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++) {
            line_call call = {l, inputs, (weft_dtype)dtype};
            for (int k = 0; k < n; k++)
                in[k] = line_input_array(&inputs[k], k, call.dtype, DYNAMIC, 0);
            int64_t left = left_behind(l, in, n, &call);
            if (left > (calls > 1 ? calls - 1 : 0))
                length +=
                    (size_t)snprintf(leaving + length, sizeof leaving - length, " %s (%s: %lld)",
                                     l->name, weft_dtype_name(call.dtype), (long long)left);
            counted++;
        }
        weft_scope_close(NULL);
    }
    CHECK(counted > 300 * WEFT_DTYPE_COUNT);
    fprintf(stderr, length > 0 ? "arrays left in the caller's scope:%s\n" : "%s", leaving);
    CHECK_EQ_INT(length, 0);
}

/* So that a result that went with a scope is an error array. */
__attribute__((constructor)) static void debug(void)
{
    setenv("WEFT_DEBUG", "1", 1);
}

CHECK_MAIN("scope_results", CHECK_CASE(lines_leave_only_their_results))
