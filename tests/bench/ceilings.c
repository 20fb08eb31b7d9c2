/* tests/bench/ceilings.c -- measures the machine's ceilings, and the share of them that matrix
 * products reach in the same run: ceilings [--json] [--products] [ROUNDS].
 *
 * Arithmetic rates count a multiplication and an addition as two operations. Products: x (rows,
 * 4096) times weights (4096, 4096)^T in each encoding, exact and with 8-bit activations, in turn.
 * Shares are those of the fastest instructions: for exact products float32, or AMX divided by the
 * products of bfloat16 parts that each takes; for the others 8-bit dots or tiles.
 */
#include <stdint.h>

#include "tests/bench/bench.h"
#include "weft/backend.h"
#include "weft/bench.h"
#include "weft/gguf.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { ROUNDS = 9, MOST_ROUNDS = 1000, WIDTH = 4096, FEW = 256, MANY = 512 };

/* ---- Products ------------------------------------------------------------------------------- */

static const char *const kinds[] = {"float32", "bfloat16", "Q8_0", "Q4_0", "Q4_K", "affine 4"};
enum { KINDS = sizeof kinds / sizeof *kinds, BFLOAT16 = 1, FIRST_ENCODED = 2 };

typedef struct product {
    const char *weight;
    int rows;
    int parts;          /* products of bfloat16 parts for an exact one: x has three parts */
    double exact, int8; /* GOP/s, medians; 0: there is no such product */
} product;

static weft_array *made(int kind)
{
    weft_array *w = weft_random_normal(NULL, WEFT_DIMS(WIDTH, WIDTH), 0, 1, WEFT_FLOAT32);
    if (kind < FIRST_ENCODED)
        w = weft_astype(w, kind == 0 ? WEFT_FLOAT32 : WEFT_BFLOAT16);
    else
        w = weft_encode(w, kind < KINDS - 1 ? weft_gguf_encoding(kinds[kind])
                                            : weft_quantize_encoding(NULL, WEFT_BFLOAT16));
    check(weft_eval(w));
    return w;
}

static double rate(weft_array *x, weft_array *w, bool int8)
{
    weft_scope_open();
    const double start = seconds();
    check(weft_eval(int8 ? weft_linear_int8(x, w, NULL) : weft_linear(x, w, NULL)));
    const double took = seconds() - start;
    weft_scope_close(NULL);
    return 2e-9 * (double)weft_dim(x, 0) * WIDTH * WIDTH / took;
}

static product measure_product(int kind, int rows, int rounds)
{
    double exact[MOST_ROUNDS], int8[MOST_ROUNDS];
    product p = {.weight = kinds[kind], .rows = rows, .parts = kind == BFLOAT16 ? 3 : 6};
    weft_scope_open();
    weft_array *w = made(kind);
    weft_array *x = weft_random_normal(NULL, WEFT_DIMS(rows, WIDTH), 0, 1, WEFT_FLOAT32);
    check(weft_eval(x));
    for (int r = -1; r < rounds; r++) { /* not counted: the first round */
        exact[r < 0 ? 0 : r] = rate(x, w, false);
        if (kind >= FIRST_ENCODED)
            int8[r < 0 ? 0 : r] = rate(x, w, true);
    }
    p.exact = median(exact, rounds);
    p.int8 = kind >= FIRST_ENCODED ? median(int8, rounds) : 0;
    weft_scope_close(NULL);
    return p;
}

/* ---- Output --------------------------------------------------------------------------------- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void print_table(const weft_ceiling *peaks, const product *products, int n, int threads)
{
    printf("%-26s %-8s %10s %6s\n", "", "", "1 thread", "all");
    for (int k = 0; k < WEFT_CEILING_COUNT; k++) {
        const weft_ceiling *p = &peaks[k];
        if (p->measured)
            printf("%-26s %-8s %10.1f %6.1f\n", p->name, p->unit, p->one, p->all);
        else
            printf("%-26s %s\n", p->name, p->present ? "present, not measured" : "not present");
    }
    const double f32 = peaks[WEFT_CEILING_FLOAT32].all, tiles = peaks[WEFT_CEILING_AMX].all;
    const double int8 = larger(peaks[WEFT_CEILING_INT8].all, peaks[WEFT_CEILING_AMX_INT8].all);
    if (n > 0)
        printf("\nProducts with %d x %d, GOP/s and share of the ceiling, %d threads\n", WIDTH,
               WIDTH, threads);
    for (int i = 0; i < n; i++) {
        const product *p = &products[i];
        printf("%-10s %4d rows: exact %6.1f (%.2f)", p->weight, p->rows, p->exact,
               p->exact / larger(f32, tiles / p->parts));
        if (p->int8 > 0)
            printf(", int8 %6.1f (%.2f), ratio %.2f", p->int8, int8 > 0 ? p->int8 / int8 : 0,
                   p->int8 / p->exact);
        printf("\n");
    }
}

static void print_json(const weft_ceiling *peaks, const product *products, int n, int threads)
{
    printf("{\"threads\":%d,\"ceilings\":[", threads);
    for (int k = 0; k < WEFT_CEILING_COUNT; k++) {
        const weft_ceiling *p = &peaks[k];
        printf("%s{\"name\":\"%s\",\"unit\":\"%s\",\"present\":%s", k ? "," : "", p->name, p->unit,
               p->present ? "true" : "false");
        if (p->measured)
            printf(",\"one\":%.2f,\"all\":%.2f", p->one, p->all);
        printf("}");
    }
    printf("],\"products\":[");
    for (int i = 0; i < n; i++) {
        const product *p = &products[i];
        printf("%s{\"weight\":\"%s\",\"rows\":%d,\"exact\":%.2f", i ? "," : "", p->weight, p->rows,
               p->exact);
        if (p->int8 > 0)
            printf(",\"int8\":%.2f", p->int8);
        printf("}");
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static const int rows[] = {FEW, MANY};
    bool json = false, with_products = false;
    int rounds = ROUNDS, n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--products") == 0)
            with_products = true;
        else
            rounds = atoi(argv[i]);
    }
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "ceilings [--json] [--products] [ROUNDS]: ROUNDS from 1 to %d\n",
                MOST_ROUNDS);
        return 2;
    }
    weft_ceiling peaks[WEFT_CEILING_COUNT];
    product products[2 * KINDS];
    const int threads = weft_threads();
    check(weft_bench_ceilings(weft_default_device(), weft_threads(), rounds, peaks));
    for (int k = 0; with_products && k < KINDS; k++)
        for (int r = 0; r < 2; r++)
            products[n++] = measure_product(k, rows[r], rounds);
    (json ? print_json : print_table)(peaks, products, n, threads);
    return 0;
}
