/* tests/vulkan/test_joins.c -- random graphs of the ops that kernels compute together (products,
 * norms, sums, gates): planning ends, and the bits are those of ops computed one by one. Most
 * arrays are small, since small operands may be planned ahead of their turn. */
#include <stdio.h>

#include "tests/vulkan/both.h"
#include "weft/weft.h"

enum { GRAPHS = 150, SOURCES = 3, NODES = 16, KINDS = 8, WIDTH = 8 };

typedef struct randoms {
    uint64_t state;
} randoms;

static int below(randoms *r, int bound)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((r->state >> 33) % (uint64_t)bound);
}

typedef struct sources {
    weft_array *x[SOURCES], *w[SOURCES], *gain;
} sources;

static weft_array *node_of(const sources *s, int kind, weft_array *a, weft_array *b, int w)
{
    switch (kind) {
    case 0:
        return weft_add(a, b);
    case 1:
        return weft_swiglu(a, b);
    case 2:
        return weft_geglu(a, b);
    case 3:
        return weft_rms_norm(a, s->gain, 1e-5, 0);
    case 4:
        return weft_multiply(a, b);
    default: /* joins begin with products */
        return weft_linear(a, s->w[w], NULL);
    }
}

/* The operands are mostly nodes without readers, since only nodes with one reader are joined to it.
 * apart: each node is computed by itself. */
static weft_array *result(const sources *s, uint64_t seed, bool apart)
{
    randoms r = {seed};
    weft_array *nodes[SOURCES + NODES];
    int unread[NODES], n_unread = 0;
    for (int i = 0; i < SOURCES; i++)
        nodes[i] = s->x[i];
    for (int i = SOURCES; i < SOURCES + NODES; i++) {
        const int kind = below(&r, KINDS), w = below(&r, SOURCES);
        int from[2];
        for (int k = 0; k < 2; k++) {
            from[k] = below(&r, i);
            if (n_unread > 2 && below(&r, 4) > 0) {
                const int taken = below(&r, n_unread);
                from[k] = unread[taken];
                unread[taken] = unread[--n_unread];
            }
        }
        nodes[i] = both_apart(node_of(s, kind, nodes[from[0]], nodes[from[1]], w), apart);
        unread[n_unread++] = i;
    }
    weft_array *y = nodes[unread[0]];
    for (int i = 1; i < n_unread; i++)
        y = both_apart(weft_add(y, nodes[unread[i]]), apart);
    return y;
}

static void check_graphs(weft_dtype dtype, int64_t rows)
{
    sources s;
    weft_scope_open();
    for (int i = 0; i < SOURCES; i++) {
        s.x[i] = both_draw(WEFT_DIMS(1, rows, WIDTH), dtype, -1, 1);
        s.w[i] = both_draw(WEFT_DIMS(WIDTH, WIDTH), dtype, -0.5, 0.5);
        CHECK_OK(weft_eval(s.x[i]));
        CHECK_OK(weft_eval(s.w[i]));
    }
    s.gain = both_draw(WEFT_DIMS(WIDTH), dtype, 0.5, 1);
    CHECK_OK(weft_eval(s.gain));
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        weft_scope_open_lean();
        weft_array *one = result(&s, seed, false), *other = result(&s, seed, true);
        CHECK_OK(weft_eval(one));
        CHECK_OK(weft_eval(other));
        check_that(both_equal(one, other), __FILE__, __LINE__, "graph %llu, %s, %lld rows: bits",
                   (unsigned long long)seed, weft_dtype_name(dtype), (long long)rows);
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
}

static void graphs_have_the_bits_of_their_nodes(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    const int64_t before = both_fused();
    for (int64_t rows = 1; rows <= 4; rows *= 2) {
        check_graphs(WEFT_FLOAT32, rows);
        check_graphs(WEFT_BFLOAT16, rows);
    }
    CHECK(both_fused() > before);
    weft_set_default_device(weft_device_get("cpu"));
}

/* y = W x + W' x' of at most 64 bytes: each product is a small operand of the other's reader. */
static void sums_of_two_small_products_are_planned(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    weft_scope_open();
    weft_array *x[3], *w[3];
    for (int i = 0; i < 3; i++) {
        x[i] = both_draw(WEFT_DIMS(2, 16), WEFT_FLOAT16, -1, 1);
        w[i] = both_draw(WEFT_DIMS(16, 16), WEFT_FLOAT16, -1, 1);
    }
    weft_array *sums[2];
    for (int apart = 0; apart < 2; apart++) {
        weft_scope_open_lean();
        weft_array *parts[3];
        for (int i = 0; i < 3; i++)
            parts[i] = both_apart(weft_linear(x[i], w[i], NULL), apart);
        weft_array *y = both_apart(weft_add(parts[0], parts[1]), apart);
        sums[apart] = weft_add(parts[2], y);
        CHECK_OK(weft_eval(sums[apart]));
        sums[apart] = weft_scope_close(sums[apart]);
    }
    CHECK(both_equal(sums[0], sums[1]));
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_joins", CHECK_CASE(graphs_have_the_bits_of_their_nodes),
           CHECK_CASE(sums_of_two_small_products_are_planned))
