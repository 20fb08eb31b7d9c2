/* backends/vulkan/kernels/product_cores.c -- matrix products on matrix cores: conditions, choice of
 * tile, and division of the terms. */
#include "backends/vulkan/kernels/product_plan.h"
#include "backends/vulkan/shaders.h"

enum {
    PIECE = 8,          /* elements per load */
    PANEL = 8,          /* tiles in a column before the next column of tiles begins */
    LEAST_PART = 256,   /* terms */
    FEW_ROWS = 64,      /* most rows, */
    FEW_COLUMNS = 32,   /* or columns, of narrow products */
    LEAST_NARROW = 64,  /* fewest terms of them */
    ADDING = 16000,     /* the time of the launch that adds parts, in units of time_of */
    MOST_SUMS = 1 << 24 /* elements of all partial results together */
};

static const core_tile *forced;

void weft__product_force_core_tile(const core_tile *tile)
{
    forced = tile;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- Conditions ------------------------------------------------------------------------------ */

static int64_t line_size(const weft__vulkan_product *p, bool by_term, int64_t other)
{
    return by_term ? p->terms : other;
}

/* Whether the product is limited by memory bandwidth. */
static bool is_narrow(const weft__vulkan_product *p)
{
    return (p->rows <= FEW_ROWS || p->columns <= FEW_COLUMNS) && p->terms >= LEAST_NARROW;
}

static bool fits(const product_plan *plan)
{
    const weft__vulkan_product *p = &plan->p;
    const bool a_by_term = weft__product_is_by_term(&p->a),
               b_by_term = weft__product_is_by_term(&p->b);
    return !plan->wide && !p->b.format && p->a.dtype == p->b.dtype && p->terms > 0 &&
           weft__product_is_packed(&p->a, a_by_term, line_size(p, a_by_term, p->rows), PIECE) &&
           weft__product_is_packed(&p->b, b_by_term, line_size(p, b_by_term, p->columns), PIECE);
}

static uint32_t subgroups_of(const core_tile *t)
{
    return (uint32_t)(t->down * t->across * t->split);
}

/* Its matrices divide each subgroup's part, and shared memory suffices. */
static bool can_run(const core_tile *t, weft_dtype dtype, bool a_by_term, bool b_by_term,
                    const weft__vulkan_cores *cores)
{
    const weft__vulkan_core_shape *s = weft__vulkan_core_shape_of(cores, dtype);
    const uint32_t rows = t->rows / t->down, columns = t->columns / t->across;
    const int pad = weft__product_core_padding(cores->kind);
    const int64_t a = a_by_term ? t->rows * (t->terms + pad) : t->terms * (t->rows + pad),
                  b = b_by_term ? t->columns * (t->terms + pad) : t->terms * (t->columns + pad);
    const int64_t out =
        (int64_t)t->down * t->across * t->split * (t->split > 1 ? rows : s->m) * (columns + 4) * 4;
    return !(t->a_by_row && a_by_term) && !(t->b_by_column && b_by_term) &&
           (uint32_t)(t->rows * t->columns) <= cores->largest && rows % s->m == 0 &&
           columns % s->n == 0 && t->terms % s->k == 0 &&
           subgroups_of(t) * cores->subgroup <= cores->invocations &&
           2 * t->split * (a + b) <= cores->shared && out <= cores->shared;
}

bool weft__product_tile_runs(const core_tile *tile, weft_dtype dtype, bool a_by_term,
                             bool b_by_term, const weft__vulkan_cores *cores)
{
    return can_run(tile, dtype, a_by_term, b_by_term, cores);
}

/* ---- The choice ----------------------------------------------------------------------------- */

/* Divides the terms so that there are `wanted` workgroups. */
static void divide(product_plan *plan, int64_t wanted)
{
    const weft__vulkan_product *p = &plan->p;
    const int64_t size = plan->batches * p->rows * p->columns;
    int64_t parts = wanted / plan->groups;
    parts = parts < p->terms / LEAST_PART ? parts : p->terms / LEAST_PART;
    parts = parts < MOST_SUMS / size ? parts : MOST_SUMS / size;
    if (parts > 1) {
        plan->chunk = ceil_div(ceil_div(p->terms, parts), plan->core.terms) * plan->core.terms;
        plan->parts = ceil_div(p->terms, plan->chunk);
    }
}

/* divided: the terms may be, to keep all multiprocessors busy. */
static void take_tile(product_plan *plan, const core_tile *t, const weft__vulkan_cores *cores,
                      bool divided)
{
    plan->core = *t;
    if (plan->p.terms <= 16) {
        plan->core.terms = 16;
    } else if (plan->p.terms <= 32 && t->terms > 32) {
        plan->core.terms = 32;
    }
    plan->groups = plan->batches * weft__product_row_tiles(plan, t->rows) *
                   ceil_div(plan->p.columns, t->columns);
    plan->parts = 1;
    plan->chunk = plan->p.terms;
    if (divided && plan->groups > 0 && plan->groups < cores->processors &&
        (t->narrow || plan->n_products == 0) && plan->by_item == NOT_BY_ITEM) {
        divide(plan, (t->narrow ? 1 : 2) * (int64_t)cores->processors);
    }
}

/* The time of the product with the plan's tile, up to a factor: rounds in which every
 * multiprocessor computes one tile. */
static double time_of(const product_plan *plan, const weft__vulkan_cores *cores)
{
    const core_tile *t = &plan->core;
    /* About half of the last segments of matrices are empty. */
    const int64_t empty = plan->by_item == ROWS_BY_ITEM
                              ? (plan->items < plan->matrices ? plan->items : plan->matrices) / 2 *
                                    ceil_div(plan->p.columns, t->columns)
                              : 0;
    const int64_t rounds = ceil_div(plan->groups * plan->parts - empty, cores->processors);
    const double sums = plan->parts > 1 && !t->narrow ? 1.1 : 1,
                 adding = plan->parts > 1 && t->narrow ? ADDING : 0;
    const bool by_sum_rate = plan->n_products > 0 && weft__product_is_by_term(&plan->p.b);
    return adding + sums * (double)rounds * t->rows * t->columns *
                        (double)(plan->chunk + t->extra) / (by_sum_rate ? t->sum_rate : t->rate);
}

/* Whether half of a tile of more than the fewest columns would be empty. */
static bool is_empty_half(const core_tile *t, const weft__vulkan_product *p)
{
    return t->columns > 16 && t->columns >= 2 * p->columns;
}

/* Takes the fastest tile among those for narrow products or the others, and the better of dividing
 * the terms of a narrow one or not. False: no tile can run. */
static bool choose_among(product_plan *plan, const weft__vulkan_cores *cores, bool narrow)
{
    product_plan best = *plan;
    const bool a_by_term = weft__product_is_by_term(&plan->p.a),
               b_by_term = weft__product_is_by_term(&plan->p.b);
    double least = -1;
    const core_tile *tiles;
    const int n = forced ? 1 : weft__product_core_tiles(cores->kind, &tiles);
    for (int i = 0; i < n; i++) {
        const core_tile *t = forced ? forced : &tiles[i];
        if ((!forced && (t->narrow != narrow || (narrow && is_empty_half(t, &plan->p)))) ||
            !can_run(t, plan->p.a.dtype, a_by_term, b_by_term, cores)) {
            continue;
        }
        for (int divided = t->narrow && !forced ? 0 : 1; divided < 2; divided++) {
            product_plan tried = *plan;
            take_tile(&tried, t, cores, divided);
            const double time = time_of(&tried, cores);
            if (least < 0 || time < least) {
                least = time;
                best = tried;
            }
        }
    }
    *plan = best;
    return least >= 0;
}

bool weft__product_choose_cores(product_plan *plan, const weft__vulkan_cores *cores)
{
    product_plan tried = *plan;
    if (!cores || !fits(plan)) {
        return false;
    }
    if (plan->by_item == NOT_BY_ITEM && weft__product_can_scale(plan, cores, forced != NULL)) {
        weft__product_scale(&tried);
    }
    if (!weft__vulkan_core_shape_of(cores, tried.p.a.dtype) ||
        !((is_narrow(&tried.p) && plan->by_item == NOT_BY_ITEM &&
           choose_among(&tried, cores, true)) ||
          choose_among(&tried, cores, false))) {
        return false;
    }
    *plan = tried;
    plan->way = BY_CORES;
    return true;
}

/* ---- The launch ----------------------------------------------------------------------------- */

/* Whether the products of a sum that take several steps end with a whole one. */
static bool is_whole(const product_plan *plan)
{
    const int64_t step = plan->core.terms;
    return (step & (step - 1)) == 0 && plan->long_terms % step == 0;
}

void weft__product_cores_launch(const product_plan *plan, const weft__vulkan_cores *cores,
                                uint64_t y, uint32_t y_type, uint32_t bias_type,
                                weft__vulkan_launch *launch)
{
    const weft__vulkan_product *p = &plan->p;
    const core_tile *t = &plan->core;
    const weft__vulkan_core_shape *s = weft__vulkan_core_shape_of(cores, p->a.dtype);
    const bool edges =
        plan->by_item != NOT_BY_ITEM || p->rows % t->rows != 0 || p->columns % t->columns != 0 ||
        (plan->n_products > 0
             ? !is_whole(plan)
             : plan->chunk % t->terms != 0 || p->terms % plan->chunk % t->terms != 0);
    const uint64_t y_bytes = PIECE * weft_dtype_size((weft_dtype)y_type);
    const bool residual = p->residual && !weft__product_has_sums(plan);
    const uint64_t residual_bytes = residual ? PIECE * weft_dtype_size(p->bias_dtype) : 1;
    const uint32_t constants[] = {subgroups_of(t) * cores->subgroup,
                                  t->rows,
                                  t->columns,
                                  t->terms,
                                  t->down,
                                  t->across,
                                  s->m,
                                  s->n,
                                  s->k,
                                  (uint32_t)weft__product_core_padding(cores->kind),
                                  weft__product_is_by_term(&p->a),
                                  weft__product_is_by_term(&p->b),
                                  edges,
                                  y_type,
                                  bias_type,
                                  p->columns % PIECE == 0 && y % y_bytes == 0,
                                  PANEL,
                                  residual,
                                  p->columns % PIECE == 0 && p->bias % residual_bytes == 0,
                                  t->split,
                                  plan->n_products > 0,
                                  plan->by_item,
                                  plan->n_products > 0 && (t->split > 1 || plan->parts > 1)};
    launch->shader = weft__vulkan_module_for(&weft__shader_product_cores, p->a.dtype);
    launch->subgroup = cores->subgroup;
    launch->n_constants = sizeof constants / sizeof *constants;
    for (int i = 0; i < launch->n_constants; i++) {
        launch->constants[i] = constants[i];
    }
}
