/* backends/vulkan/kernels/product_scaled.c -- products of bfloat16 on devices with matrices of
 * float16 only: the operands are copied to float16, each row of a and column of b divided by a
 * power of two (scale_rows.comp); the sums, in float32, are multiplied by both. */
#include "backends/vulkan/kernels/product_plan.h"
#include "backends/vulkan/shaders.h"

enum {
    LEAST = 256,     /* fewest rows, columns and terms for which the copies pay off */
    STRIP = 16,      /* rows that a workgroup scales if they are adjacent in memory */
    ROOM = 512 << 20 /* most bytes of copies and sums */
};

/* scale_rows.comp */
typedef struct scale_push {
    uint64_t x, y, shifts;
    uint32_t batches, rows, terms, line, sizes[3], strides[4], unused;
} scale_push;

static int64_t whole(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t copy_bytes(const product_plan *plan, int64_t rows)
{
    return whole(2 * plan->batches * rows * plan->p.terms);
}

static int64_t shift_bytes(const product_plan *plan, int64_t rows)
{
    return whole(4 * plan->batches * rows);
}

static int64_t bytes_of(const product_plan *plan)
{
    const int64_t M = plan->p.rows, N = plan->p.columns;
    return copy_bytes(plan, M) + copy_bytes(plan, N) + shift_bytes(plan, M) + shift_bytes(plan, N);
}

bool weft__product_can_scale(const product_plan *plan, const weft__vulkan_cores *cores, bool forced)
{
    const weft__vulkan_product *p = &plan->p;
    return p->a.dtype == WEFT_BFLOAT16 && !weft__vulkan_core_shape_of(cores, WEFT_BFLOAT16) &&
           weft__vulkan_cores_multiply(cores, WEFT_BFLOAT16) && plan->n_products == 0 &&
           !p->separate &&
           (forced || (p->rows >= LEAST && p->columns >= LEAST && p->terms >= LEAST)) &&
           bytes_of(plan) + 4 * plan->batches * p->rows * p->columns <= ROOM;
}

static weft__vulkan_factor copy_of(const weft__vulkan_product *p, const weft__vulkan_factor *f,
                                   int64_t rows)
{
    const bool by_term = weft__product_is_by_term(f);
    weft__vulkan_factor copy = {
        .dtype = WEFT_FLOAT16, .outer = by_term ? p->terms : 1, .term = by_term ? 1 : rows};
    int64_t stride = rows * p->terms;
    for (int i = 3; i >= 0; i--) {
        copy.batch[i] = stride;
        stride *= p->sizes[i];
    }
    return copy;
}

void weft__product_scale(product_plan *plan)
{
    weft__vulkan_product *p = &plan->p;
    plan->scaled = true;
    plan->from_a = p->a;
    plan->from_b = p->b;
    p->a = copy_of(p, &plan->from_a, p->rows);
    p->b = copy_of(p, &plan->from_b, p->columns);
}

int64_t weft__product_scaled_bytes(const product_plan *plan)
{
    return plan->scaled ? bytes_of(plan) : 0;
}

/* Copies an operand of so many rows (or columns). The copies of both are independent. */
static weft_status copy(const weft_call *call, const product_plan *plan,
                        const weft__vulkan_factor *from, int64_t rows, uint64_t to, uint64_t shifts,
                        bool independent)
{
    const weft__vulkan_product *p = &plan->p;
    const bool by_term = weft__product_is_by_term(from);
    scale_push push = {.x = from->address,
                       .y = to,
                       .shifts = shifts,
                       .batches = (uint32_t)plan->batches,
                       .rows = (uint32_t)rows,
                       .terms = (uint32_t)p->terms,
                       .line = (uint32_t)(by_term ? from->outer : from->term)};
    for (int i = 0; i < 4; i++) {
        push.strides[i] = (uint32_t)from->batch[i];
        if (i > 0) {
            push.sizes[i - 1] = (uint32_t)p->sizes[i];
        }
    }
    const int64_t strips = by_term ? rows : (rows + STRIP - 1) / STRIP;
    const weft__vulkan_launch launch = {.shader = &weft__shader_scale_rows,
                                        .n_constants = 1,
                                        .constants = {by_term},
                                        .push = &push,
                                        .push_bytes = sizeof push,
                                        .groups = (uint64_t)(plan->batches * strips),
                                        .work = 64.0 * (double)plan->batches * (double)rows *
                                                (double)p->terms,
                                        .independent = independent};
    return weft__vulkan_dispatch(call, &launch);
}

weft_status weft__product_copy_scaled(const weft_call *call, product_plan *plan, uint64_t room)
{
    const int64_t M = plan->p.rows, N = plan->p.columns;
    plan->p.a.address = room;
    plan->p.b.address = plan->p.a.address + (uint64_t)copy_bytes(plan, M);
    plan->a_shifts = plan->p.b.address + (uint64_t)copy_bytes(plan, N);
    plan->b_shifts = plan->a_shifts + (uint64_t)shift_bytes(plan, M);
    const weft_status status =
        copy(call, plan, &plan->from_a, M, plan->p.a.address, plan->a_shifts, false);
    return status == WEFT_OK
               ? copy(call, plan, &plan->from_b, N, plan->p.b.address, plan->b_shifts, true)
               : status;
}
