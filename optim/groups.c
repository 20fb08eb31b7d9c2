/* optim/groups.c -- parameter groups: defaults, ranges and schedules of options; and the filters.
 */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "optim/optim.h"

bool weft_optim_is_matrix(void *context, const char *path, const weft_array *parameter)
{
    (void)context;
    (void)path;
    return weft_ndim(parameter) == 2;
}

bool weft_optim_path_contains(void *text, const char *path, const weft_array *parameter)
{
    (void)parameter;
    return strstr(path, text) != NULL;
}

weft_status weft__optim_expect(const char *type, const char *name, double value, bool below_one,
                               bool positive)
{
    if (isnan(value) || ((!below_one || value < 1) && (!positive || value > 0)))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: %s: expected a %s, got %g", type, name,
                     below_one ? "number in [0, 1)" : "positive number", value);
}

/* ---- options -------------------------------------------------------------------------------- */

static double *double_at(optim_group *g, int i)
{
    return (double *)((char *)g->options + g->type->fields[i].offset);
}

static int64_t *int_at(optim_group *g, int i)
{
    return (int64_t *)((char *)g->options + g->type->fields[i].offset);
}

/* Fills in option i. */
static weft_status fill_double(optim_group *g, int i)
{
    double standard = 0, *value = double_at(g, i);
    if (g->type->defaults)
        memcpy(&standard, (const char *)g->type->defaults + g->type->fields[i].offset,
               sizeof standard);
    *value = weft__or_default(*value, standard);
    if (!(*value >= 0 && isfinite(*value)))
        return weft_fail(WEFT_INVALID, "%s: %s: expected a number of at least 0, got %g",
                         g->type->name, g->type->fields[i].name, *value);
    return WEFT_OK;
}

static void fill_int(optim_group *g, int i)
{
    int64_t standard = 0, *value = int_at(g, i);
    if (g->type->defaults)
        memcpy(&standard, (const char *)g->type->defaults + g->type->fields[i].offset,
               sizeof standard);
    *value = weft__count_or_default(*value, standard);
}

static weft_status set_schedule(optim_group *g, const weft_optim_schedule *schedule)
{
    if (schedule->rate == NULL)
        return weft_fail(WEFT_INVALID, "%s: %s: there is no rate", g->type->name, schedule->name);
    if (strcmp(schedule->name, "learning_rate") == 0) {
        g->lr_rate = schedule->rate;
        return WEFT_OK;
    }
    for (int i = 0; i < g->n_fields; i++) {
        const weft_field *field = &g->type->fields[i];
        if (strcmp(field->name, schedule->name) == 0 && field->type == WEFT_FIELD_DOUBLE) {
            g->rates[i] = schedule->rate;
            *double_at(g, i) = NAN;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_INVALID, "%s: it has no number %s that could be scheduled", g->type->name,
                     schedule->name);
}

static weft_status fill_options(optim_group *g, const weft_optim_group *from)
{
    weft_status status = WEFT_OK;
    if (from->options)
        memcpy(g->options, from->options, g->type->options_size);
    for (int i = 0; status == WEFT_OK && i < g->n_fields; i++) {
        if (g->type->fields[i].type == WEFT_FIELD_DOUBLE)
            status = fill_double(g, i);
        else if (g->type->fields[i].type == WEFT_FIELD_INT)
            fill_int(g, i);
    }
    for (int i = 0; status == WEFT_OK && i < from->n_schedules; i++)
        status = set_schedule(g, &from->schedules[i]);
    if (status == WEFT_OK && g->type->check)
        status = g->type->check(g->options);
    return status;
}

static weft_status check_rate(const optim_group *g, double rate)
{
    const bool own = g->type->own_rate && g->type->own_rate(g->options);
    if (g->lr_rate == NULL && !own && !(rate > 0 && isfinite(rate)))
        return weft_fail(WEFT_INVALID, "%s: learning_rate: expected a positive number, got %g",
                         g->type->name, rate);
    return WEFT_OK;
}

/* ---- a group -------------------------------------------------------------------------------- */

weft_status weft__optim_group_start(optim_group *g, const weft_optim_group *from, int index)
{
    if (from->type == NULL)
        return weft_fail(WEFT_INVALID, "optimizer: group %d has no type", index);
    g->type = from->type;
    while (g->type->fields && g->type->fields[g->n_fields].type != WEFT_FIELD_END)
        g->n_fields++;
    const size_t n = (size_t)g->n_fields + 1;
    g->options = weft_calloc(1, g->type->options_size + 1);
    g->rates = weft_calloc(n, sizeof *g->rates);
    g->numbers = weft_calloc(n, sizeof *g->numbers);
    if (g->options == NULL || g->rates == NULL || g->numbers == NULL)
        return weft__out_of_memory("optimizer", NULL);
    weft_status status = fill_options(g, from);
    if (status == WEFT_OK)
        status = check_rate(g, from->learning_rate);
    if (status == WEFT_OK) {
        const double rate = g->lr_rate ? weft_rate_at(g->lr_rate, 0) : from->learning_rate;
        status = weft_set(&g->lr, weft_scalar(rate, WEFT_FLOAT64));
    }
    return status;
}

void weft__optim_group_end(optim_group *g)
{
    weft_drop(g->lr);
    weft_free(g->options);
    weft_free(g->rates);
    weft_free(g->numbers);
}
