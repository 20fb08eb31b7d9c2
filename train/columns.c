/* train/columns.c -- the columns of batches: their table, checks and sizes. */
#include "train/columns.h"

#include <string.h>

#include "core/failure.h"
#include "core/shape.h"
#include "train/data/dataset.h"
#include "train/objective/objective.h"
#include "weft/tool/data.h"

#define COLUMN(member, type, ...)                                                                  \
    {                                                                                              \
        .name = #member, offsetof(weft_batch, member), offsetof(weft__host_batch, member),         \
        WEFT_##type, __VA_ARGS__                                                                   \
    }

const weft__column weft__columns[WEFT__COLUMNS] = {
    COLUMN(tokens, INT32, "BL", WEFT__ALWAYS, 0, 0, NULL),
    COLUMN(targets, INT32, "BL", WEFT__ALWAYS, -1, 0, NULL),
    COLUMN(weights, FLOAT32, "BL", WEFT__ONES, 0, 0, NULL),
    COLUMN(first, INT32, "RC", WEFT__PACKED, 0, 0, NULL),
    COLUMN(positions, INT32, "RC", WEFT__PACKED, 0, 0, NULL),
    COLUMN(pack, INT32, "RC", WEFT__REPACKED, -1, 0, NULL),
    COLUMN(unpack, INT32, "BL", WEFT__REPACKED, -1, 0, NULL),
    COLUMN(reference, FLOAT32, "B", WEFT__OBJECTIVE, 0, WEFT_COLUMN_REFERENCE,
           "reference log-probabilities (weft_dataset_add_reference)"),
    COLUMN(labels, FLOAT32, "N", WEFT__OBJECTIVE, 0, WEFT_COLUMN_LABELS,
           "whether samples are desirable (weft_dataset_add_labeled), or the scores of texts"),
    COLUMN(advantages, FLOAT32, "N", WEFT__OBJECTIVE, 0, WEFT_COLUMN_ADVANTAGES,
           "advantages of completions (weft_dataset_load_completions)"),
    COLUMN(old, FLOAT32, "BL", WEFT__OBJECTIVE, 0, WEFT_COLUMN_OLD,
           "log-probabilities before the first update on the batch"),
    COLUMN(ref, FLOAT32, "BL", WEFT__OBJECTIVE, 0, WEFT_COLUMN_REF,
           "reference log-probabilities of tokens (weft_dataset_add_reference)"),
    COLUMN(sampled, FLOAT32, "BL", WEFT__OBJECTIVE, 0, WEFT_COLUMN_SAMPLED,
           "the sampler's log-probabilities of tokens (weft_dataset_load_completions)"),
    COLUMN(top, INT32, "BLS", WEFT__OBJECTIVE, 0, WEFT_COLUMN_TOP,
           "a stored teacher's ids (weft_dataset_add_teacher)"),
    COLUMN(top_logprobs, FLOAT32, "BLS", WEFT__OBJECTIVE, 0, WEFT_COLUMN_TOP_LOGPROBS,
           "a stored teacher's log-probabilities (weft_dataset_add_teacher)"),
    COLUMN(teacher_tokens, INT32, "BM", WEFT__OBJECTIVE, 0, WEFT_COLUMN_TEACHER_TOKENS,
           "what a teacher reads (weft_dataset_take_teacher_samples)"),
    COLUMN(teacher_targets, INT32, "BM", WEFT__OBJECTIVE, -1, WEFT_COLUMN_TEACHER_TARGETS,
           "the targets of what a teacher reads (weft_dataset_take_teacher_samples)"),
    COLUMN(cells, INT32, "K", WEFT__COMPUTED, -1, 0, NULL),
    COLUMN(teacher, FLOAT32, "KT", WEFT__COMPUTED, 0, 0, NULL),
};

#undef COLUMN

weft_array **weft__batch_slot(const weft_batch *batch, int c)
{
    return (weft_array **)((uintptr_t)batch + weft__columns[c].offset);
}

void weft_batch_free(weft_batch *batch)
{
    for (int c = 0; c < WEFT__COLUMNS; c++)
        weft_drop(*weft__batch_slot(batch, c));
    *batch = (weft_batch){0};
}

/* ---- sizes ---------------------------------------------------------------------------------- */

int64_t weft__rows_per_example(weft_examples examples, int64_t texts)
{
    if (examples == WEFT_EXAMPLES_TEXTS)
        return texts > 1 ? texts : 1;
    return examples == WEFT_EXAMPLES_LABELED || examples == WEFT_EXAMPLES_PAIRS ? 2 : 1;
}

static int64_t per_example(const weft_batch *batch)
{
    return weft__rows_per_example(batch->examples, batch->texts);
}

bool weft__batch_shares(const weft_batch *batch)
{
    return batch->pack && batch->first == NULL && batch->examples == WEFT_EXAMPLES_SCORED;
}

int64_t weft__batch_examples(const weft_batch *batch)
{
    return weft_dim(batch->tokens, 0) / per_example(batch);
}

static weft__batch_sizes sizes_of(const weft_batch *batch)
{
    const weft_array *read = batch->pack ? batch->pack : batch->tokens;
    const int64_t N = weft__batch_examples(batch), B = N * per_example(batch);
    return (weft__batch_sizes){
        .N = N,
        .B = B,
        .L = weft_dim(batch->tokens, 1),
        .R = weft_dim(read, 0),
        .C = weft_dim(read, 1),
        .K = batch->cells ? weft_dim(batch->cells, 0) : 0,
        .T = batch->teacher ? weft_dim(batch->teacher, 1) : 0,
        .S = WEFT_TEACHER_TOP,
        .M = weft_dim(batch->teacher_tokens ? batch->teacher_tokens : batch->tokens, 1)};
}

static int64_t length_of(const weft__batch_sizes *s, char axis)
{
    const struct {
        char axis;
        int64_t length;
    } all[] = {{'N', s->N}, {'B', s->B}, {'L', s->L}, {'R', s->R}, {'C', s->C},
               {'K', s->K}, {'T', s->T}, {'S', s->S}, {'M', s->M}};
    int i = 0;
    while (all[i].axis != axis)
        i++;
    return all[i].length;
}

weft_dims weft__column_shape(int c, const weft__batch_sizes *sizes)
{
    weft_dims shape = {0};
    for (const char *axis = weft__columns[c].axes; *axis; axis++)
        shape.at[shape.n++] = length_of(sizes, *axis);
    return shape;
}

weft_status weft_batch_complete(weft_batch *batch, const weft_objective *objective)
{
    weft_status status = WEFT_OK;
    batch->examples = objective->examples;
    const weft__batch_sizes sizes = sizes_of(batch);
    weft_scope_open_lean();
    for (int c = 0; status == WEFT_OK && c < WEFT__COLUMNS; c++) {
        weft_array **slot = weft__batch_slot(batch, c);
        const bool own = strchr(weft__columns[c].axes, 'M') != NULL; /* a teacher reads the batch */
        if (weft__columns[c].bit & (objective->columns | objective->accepts) && !own &&
            *slot == NULL)
            status =
                weft_set(slot, weft_zeros(weft__column_shape(c, &sizes), weft__columns[c].dtype));
    }
    weft_scope_close(NULL);
    return status;
}

/* ---- checks --------------------------------------------------------------------------------- */

unsigned weft__dataset_columns(const weft_dataset *d)
{
    const bool scored = d->info.examples == WEFT_EXAMPLES_SCORED;
    return (d->reference ? scored ? WEFT_COLUMN_REF : WEFT_COLUMN_REFERENCE : 0U) |
           (d->taught ? WEFT_COLUMN_TEACHER_TOKENS | WEFT_COLUMN_TEACHER_TARGETS : 0U) |
           (d->top ? WEFT_COLUMN_TOP | WEFT_COLUMN_TOP_LOGPROBS : 0U) |
           (scored ? WEFT_COLUMN_ADVANTAGES : 0U) | (d->sampled ? WEFT_COLUMN_SAMPLED : 0U) |
           (d->info.examples == WEFT_EXAMPLES_LABELED || d->info.scored ? WEFT_COLUMN_LABELS : 0U);
}

/* Checks the kind of examples of `where`, data or a batch, and the columns of objectives there. */
static weft_status check_kind(const weft_objective *o, const char *where, weft_examples examples,
                              int64_t texts, unsigned has)
{
    static const char *const kinds[] = {"single samples",       "labeled completions",
                                        "preference pairs",     "completions with rewards",
                                        "texts to be compared", "prompts"};
    if (examples != o->examples)
        return weft_fail(WEFT_INVALID, "objective %s: %s: expected %s, got %s", o->name, where,
                         kinds[o->examples], kinds[examples]);
    if (o->texts > 0 && texts != o->texts)
        return weft_fail(WEFT_INVALID,
                         "objective %s: %s: expected examples of %lld texts, got %lld", o->name,
                         where, (long long)o->texts, (long long)texts);
    for (const weft__column *c = weft__columns; c < weft__columns + WEFT__COLUMNS; c++) {
        const unsigned missing = c->bit & o->columns & ~has;
        const unsigned surplus = c->bit & has & ~(o->columns | o->accepts);
        if (missing || surplus)
            return weft_fail(WEFT_INVALID, "objective %s: %s: %s column %s: %s", o->name, where,
                             missing ? "missing" : "surplus", c->name, c->what);
    }
    return WEFT_OK;
}

weft_status weft__objective_check_model(const weft_objective *o, const weft_model *model)
{
    const weft_model_info *info = weft_model_info_of(model);
    if (info->n_labels > 0 && o != &weft_objective_supervised)
        return weft_fail(WEFT_UNSUPPORTED,
                         "objective %s: unsupported for a classifier (%lld labels): expected "
                         "supervised",
                         o->name, (long long)info->n_labels);
    if (info->encoder && info->n_labels == 0 && o->compare == NULL)
        return weft_fail(WEFT_UNSUPPORTED,
                         "trainer: %s models are encoders, for which objective %s is unsupported: "
                         "expected one that compares texts, such as ranking",
                         weft_model_family_of(model)->model_type, o->name);
    return WEFT_OK;
}

weft_status weft__objective_check_data(const weft_objective *objective, const weft_dataset *data)
{
    if (data && data->info.examples == WEFT_EXAMPLES_PROMPTS &&
        objective->examples == WEFT_EXAMPLES_SCORED)
        return WEFT_OK; /* completions are sampled */
    return data ? check_kind(objective, "data", data->info.examples, data->info.texts,
                             weft__dataset_columns(data))
                : check_kind(objective, "data", WEFT_EXAMPLES_SINGLE, 0, 0);
}

/* Whether a batch must have column c. */
static bool needs(const weft_batch *b, int c)
{
    const weft__column_rule rule = weft__columns[c].rule;
    const bool repacked = b->pack || b->unpack;
    if (weft__batch_shares(b) && weft__batch_slot(b, c) == (weft_array **)&b->first)
        return false;
    return rule == WEFT__ALWAYS || (rule == WEFT__REPACKED && repacked) ||
           (rule == WEFT__PACKED && (repacked || b->first || b->positions));
}

/* Checks dtype and shape of column c. */
static weft_status check_column(const weft_objective *o, const weft_batch *batch, int c)
{
    char wanted[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    const weft_array *a = *weft__batch_slot(batch, c);
    if (!weft_ok(a))
        return a ? weft__report(a) : WEFT_OK;
    const weft__batch_sizes sizes = sizes_of(batch);
    const weft_dims shape = weft__column_shape(c, &sizes), found = weft_shape(a);
    const weft_dtype dtype = weft__columns[c].dtype;
    const bool computed = weft__columns[c].rule == WEFT__COMPUTED; /* in the teacher's dtype */
    if ((computed || weft_dtype_of(a) == dtype) && weft__shape_equal(&found, &shape))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "objective %s: batch: column %s: expected %s %s, got %s %s",
                     o->name, weft__columns[c].name, weft_dtype_name(dtype),
                     weft__shape_text(&shape, wanted), weft_dtype_name(weft_dtype_of(a)),
                     weft__shape_text(&found, got));
}

weft_status weft__objective_check_batch(const weft_objective *o, const weft_batch *batch)
{
    unsigned has = 0;
    for (int c = 0; c < WEFT__COLUMNS; c++) {
        const bool there = *weft__batch_slot(batch, c) != NULL;
        if (!there && needs(batch, c))
            return weft_fail(WEFT_INVALID, "objective %s: batch: missing column %s", o->name,
                             weft__columns[c].name);
        has |= there ? weft__columns[c].bit : 0;
    }
    if (weft__batch_shares(batch) && weft_dim(batch->pack, 0) != 1)
        return weft_fail(WEFT_INVALID,
                         "objective %s: batch: column pack: expected one row of completions that "
                         "share their prompts, got %lld",
                         o->name, (long long)weft_dim(batch->pack, 0));
    if (o->compare && (batch->first || batch->pack))
        return weft_fail(WEFT_UNSUPPORTED, "objective %s: batch: packed rows are unsupported",
                         o->name);
    weft_status status = check_kind(o, "batch", batch->examples, batch->texts, has);
    const bool compared = batch->examples == WEFT_EXAMPLES_TEXTS;
    if (status == WEFT_OK && compared && (batch->texts < 2 || batch->texts > WEFT__MOST_TEXTS))
        status = weft_fail(WEFT_INVALID, "objective %s: batch: texts: expected 2 to %d, got %lld",
                           o->name, WEFT__MOST_TEXTS, (long long)batch->texts);
    for (int c = 0; status == WEFT_OK && c < WEFT__COLUMNS; c++)
        status = check_column(o, batch, c);
    return status;
}
