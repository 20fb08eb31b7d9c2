/* tests/transforms/test_deep.c -- transforms of a chain of a million nodes: walks and releases that
 * do not recurse. */
#include "tests/check.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* Sanitizers and valgrind need more room and time for each node. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEPTH = 100000 };
#else
enum { DEPTH = 1000000 };
#endif

static int chain(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    int depth = context ? *(const int *)context : DEPTH;
    (void)n_in, (void)room;
    weft_array *x = in[0];
    for (int i = 0; i < depth; i++) {
        x = weft_negative(x);
    }
    out[0] = x;
    return 1;
}

/* Graphs only: evaluating one as deep is test_eval's. */
static void a_deep_chain_both_ways(void)
{
    weft_array *x, *t, *y, *dy, *dx;
    weft_scope_open();
    x = weft_full(WEFT_DIMS(2), 3, WEFT_FLOAT32);
    t = weft_full(WEFT_DIMS(2), 5, WEFT_FLOAT32);
    CHECK_OK(weft_jvp(chain, NULL, &x, 1, &t, &y, 1, &dy));
    CHECK_EQ_INT(weft_dim(dy, 0), 2);
    weft_scope_close(NULL);
    weft_scope_open();
    x = weft_full(WEFT_DIMS(2), 3, WEFT_FLOAT32);
    t = weft_full(WEFT_DIMS(2), 5, WEFT_FLOAT32);
    CHECK_OK(weft_vjp(chain, NULL, &x, 1, &t, &y, 1, &dx));
    CHECK_EQ_INT(weft_dim(dx, 0), 2);
    weft_scope_close(NULL);
    weft_scope_open();
    int depth = DEPTH / 10;
    x = weft_full(WEFT_DIMS(2), 3, WEFT_FLOAT32);
    CHECK_OK(weft_vmap(chain, &depth, &x, NULL, 1, &y, NULL, 1));
    CHECK_EQ_INT(weft_dim(y, 0), 2);
    weft_scope_close(NULL);
}

CHECK_MAIN("deep", CHECK_CASE(a_deep_chain_both_ways))
