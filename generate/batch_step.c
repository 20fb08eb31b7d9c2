/* generate/batch_step.c -- the computations for all sequences of a batch. */
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/math.h"
#include "generate/batch.h"
#include "generate/caches/rows.h"

enum { LEAST_READ = 32 }; /* tokens of prompts that a step processes */

static int64_t n_caches(const weft_running_batch *b)
{
    return weft_model_info_of(b->model)->n_caches;
}

/* Whether a sequence's text is to be processed for the batch's caches. */
static bool reads(const weft__row *row)
{
    return row->live && row->run.generator->batched && row->run.generator->reading;
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* New sequences whose prompts are processed together. Equal prompts are processed once. */
typedef struct arrival {
    weft_running_batch *b;
    const size_t *places, *of; /* (n): the rows of all new sequences, and the prompts of each */
    size_t n;
    const weft_prompt *prompts; /* different ones */
    const size_t *order;        /* indices of those processed together */
    size_t G;
    weft_cache **caches;
} arrival;

/* weft__rows_fn: draws the first tokens. */
static weft_status arrive(void *context, weft_array *hidden, int64_t from)
{
    const arrival *a = context;
    weft_running_batch *b = a->b;
    weft_array *logits = weft__rows_last_logits(b->model, a->prompts, a->order, a->G, hidden, from);
    weft__row **rows = weft_malloc((a->n + 1) * sizeof(weft__row *));
    size_t *which = weft_malloc((a->n + 1) * sizeof *which), n = 0;
    weft_status status = rows && which ? WEFT_OK : weft__out_of_memory("generate", NULL);
    for (size_t g = 0; g < a->G; g++) {
        for (size_t i = 0; status == WEFT_OK && i < a->n; i++) {
            if (a->of[i] != a->order[g])
                continue;
            rows[n] = &b->rows[a->places[i]];
            rows[n]->run.generator->reading = false;
            which[n++] = g;
            status = weft__batch_put(b, a->places[i], a->caches, (int64_t)g,
                                     rows[n - 1]->run.generator->n_text);
        }
    }
    if (status == WEFT_OK)
        status = weft__batch_draw(rows, which, n, logits, weft__batch_argmax(logits));
    weft_free(rows);
    weft_free(which);
    return status;
}

/* Empty caches of the kinds of the batch's; NULL with a message when out of memory. */
static weft_cache **others(const weft_running_batch *b)
{
    weft_cache **made = weft_calloc((size_t)n_caches(b) + 1, sizeof(weft_cache *));
    bool memory = made != NULL;
    for (int64_t i = 0; memory && i < n_caches(b); i++) {
        made[i] = b->caches[i]->type->another(b->caches[i]);
        memory = made[i] != NULL;
    }
    if (memory)
        return made;
    weft_model_free_caches(b->model, made);
    weft__out_of_memory("generate", "the caches");
    return NULL;
}

/* How many prompts of the group can be padded on the right to the length of the first: those whose
 * caches can forget the padding. */
static size_t can_be_padded(const arrival *a)
{
    const int64_t longest = (int64_t)a->prompts[a->order[0]].n;
    size_t G = a->G;
    for (int64_t i = 0; i < n_caches(a->b); i++)
        weft_cache_advance(a->caches[i], longest);
    for (size_t g = 1; g < G; g++) {
        for (int64_t i = 0; i < n_caches(a->b); i++) {
            if (!weft_cache_can_trim(a->caches[i], longest - (int64_t)a->prompts[a->order[g]].n))
                G = g;
        }
    }
    for (int64_t i = 0; i < n_caches(a->b); i++)
        weft_cache_reset(a->caches[i]);
    return G;
}

static weft_status begin_some(arrival *a)
{
    weft_running_batch *b = a->b;
    weft_status status = WEFT_MEMORY;
    weft__batch_use(b, b->rows[a->places[a->order[0]]].adapter);
    a->caches = others(b);
    if (a->caches) {
        a->G = can_be_padded(a);
        status = weft__rows_pass(b->model, a->prompts, a->order, a->G, &b->options.batch, a->caches,
                                 arrive, a);
    }
    weft_model_free_caches(b->model, a->caches);
    return status;
}

/* Processes the end of a prompt and draws the first token. Then copies the sequence's own caches to
 * its pages; they may serve other prompts. */
static weft_status read_end(weft_running_batch *b, size_t place)
{
    weft__row *row = &b->rows[place];
    weft_generator *g = row->run.generator;
    weft__row_next(row);
    if (!weft__row_decodes(row))
        return WEFT_OK; /* it has ended, or is to be read again */
    const weft_status status =
        weft__batch_put(b, place, g->caches, 0, weft_cache_offset(g->caches[0]));
    return status == WEFT_OK ? weft__generator_store(g) : status;
}

/* Processes further tokens of a prompt, within the budget; returns their number. */
static int64_t read_piece(weft_running_batch *b, size_t place)
{
    weft__row *row = &b->rows[place];
    weft_generator *g = row->run.generator;
    const int64_t left = g->n_text - g->known, n = weft__smaller(left, b->budget);
    weft__batch_use(b, row->adapter);
    const weft_status status = n < left ? weft__step_chunk(g, g->known, n) : read_end(b, place);
    if (status != WEFT_OK && row->live)
        weft__row_fail(row, status);
    else if (n < left)
        g->known += n;
    return n;
}

/* Whether a prompt is processed in the sequence's own caches: the budget does not suffice, a piece
 * of it is there already, or its keys and values come from the prompt cache and are kept for it. */
static bool reads_alone(const weft_running_batch *b, const weft__row *row)
{
    const weft_generator *g = row->run.generator;
    return g->options.prompt_cache || g->known > 0 || g->n_text > b->budget;
}

/* After a failure: fails the sequences whose prompts were processed, or the first one. */
static void fail_arrival(const arrival *a, size_t place, weft_status status)
{
    for (size_t g = 0; status != WEFT_OK && g < a->G; g++) {
        for (size_t i = 0; a->order && i < a->n; i++) {
            weft__row *row = &a->b->rows[a->places[i]];
            if (a->of[i] == a->order[g] && row->live)
                weft__row_fail(row, status);
        }
        if (a->order == NULL && a->b->rows[place].live)
            weft__row_fail(&a->b->rows[place], status);
    }
}

/* The index of a prompt among n others, or n. */
static size_t find_prompt(const weft_prompt *prompts, size_t n, const weft_generator *g)
{
    size_t i = 0;
    while (i < n && (prompts[i].n != (size_t)g->n_text ||
                     memcmp(prompts[i].ids, g->text, prompts[i].n * sizeof *g->text) != 0))
        i++;
    return i;
}

/* Whether there are pages for the text of a sequence; if reserving them fails, it fails. */
static bool admit(weft_running_batch *b, weft__row *row)
{
    bool admitted = false;
    const weft_status status = weft__batch_admit(b, row, &admitted);
    if (status != WEFT_OK)
        weft__row_fail(row, status);
    return status == WEFT_OK && admitted;
}

/* Takes back the pages of younger sequences that are not processed yet, so that an older one does
 * not wait for them. False if there were no such pages. */
static bool take_from_younger(weft_running_batch *b, const weft__row *older)
{
    bool any = false;
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        if (reads(row) && row->index > older->index && row->pages.n > 0) {
            weft__row_give_pages(row);
            any = true;
        }
    }
    return any;
}

/* The row whose prompt has waited longest, of requests from an index on; NULL: no prompt waits. */
static weft__row *find_oldest(const weft_running_batch *b, size_t from)
{
    weft__row *oldest = NULL;
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        if (reads(row) && row->index >= from && (oldest == NULL || row->index < oldest->index))
            oldest = row;
    }
    return oldest;
}

/* Takes back the pages of sequences of whose texts nothing is processed yet: they are empty. */
static void give_back(weft_running_batch *b)
{
    for (size_t i = 0; i < b->places; i++) {
        if (reads(&b->rows[i]) && b->rows[i].run.generator->known == 0)
            weft__row_give_pages(&b->rows[i]);
    }
}

/* Processes the oldest prompt, that of a row, together with others that are at most as long and
 * have the same adapter, older ones first; returns the number of tokens. The prompts between them
 * reserve their pages, too, so that no younger one takes these. */
static int64_t read_together(weft_running_batch *b, size_t place)
{
    size_t *places = weft_malloc(2 * b->places * sizeof *places);
    size_t *of = places ? places + b->places : NULL, *order = NULL, n = 0, left = 0;
    weft_prompt *prompts = weft_malloc(b->places * sizeof *prompts);
    const int64_t longest = b->rows[place].run.generator->n_text;
    const size_t most = (size_t)(b->budget / longest);
    arrival a = {.b = b, .places = places, .of = of, .prompts = prompts, .G = 1};
    weft_status status = places && prompts ? WEFT_OK : weft__out_of_memory("generate", NULL);
    for (weft__row *row = &b->rows[place]; status == WEFT_OK && row != NULL;
         row = find_oldest(b, row->index + 1)) {
        if (!admit(b, row) && row->live)
            break; /* younger ones wait, too */
        if (!row->live)
            continue;
        const weft_generator *g = row->run.generator;
        const bool fits =
            !reads_alone(b, row) && g->n_text <= longest && row->adapter == b->rows[place].adapter;
        of[a.n] = fits ? find_prompt(prompts, n, g) : n;
        if (!fits || (of[a.n] == n && n == most))
            continue;
        places[a.n] = (size_t)(row - b->rows);
        if (of[a.n++] == n)
            prompts[n++] = (weft_prompt){g->text, (size_t)g->n_text};
    }
    if (status == WEFT_OK)
        status = weft__rows_order(prompts, NULL, n, &order, &left);
    if (status == WEFT_OK) {
        a.order = order;
        a.G = weft__rows_together(b->model, prompts, order, left, &b->options.batch);
        status = begin_some(&a);
    }
    fail_arrival(&a, place, status);
    give_back(b); /* also those that were not among the G */
    weft_free(order);
    weft_free(places);
    weft_free(prompts);
    return (int64_t)a.G * longest;
}

/* The tokens of prompts that a step may process: if there is a latency and sequences wait for their
 * next tokens, as many as the time allows. */
static int64_t budget_of(const weft_running_batch *b)
{
    const int64_t whole = weft__rows_budget(&b->options.batch);
    const double latency = b->options.latency, left = latency - b->step_seconds;
    bool any = false;
    for (size_t i = 0; i < b->places; i++)
        any = any || (b->rows[i].live && !b->rows[i].run.generator->reading);
    if (latency <= 0 || !any)
        return whole;
    const double n = b->read_rate * (left > latency / 2 ? left : latency / 2);
    return n < (double)whole ? weft__smaller(whole, weft__larger(LEAST_READ, (int64_t)n)) : whole;
}

/* Whether a prompt is left for the next step: it could be processed whole, together with others,
 * but for what this step has processed. */
static bool waits(const weft_running_batch *b, const weft__row *row, int64_t whole)
{
    const weft_generator *g = row->run.generator;
    return g->n_text > b->budget && g->n_text <= whole / 2 && g->known == 0 &&
           g->options.prompt_cache == NULL;
}

/* Processes the oldest prompts within the budget; returns the number of tokens. */
static int64_t read_oldest(weft_running_batch *b)
{
    const int64_t whole = b->budget;
    for (weft__row *row; b->budget > 0 && (row = find_oldest(b, 0)) != NULL;) {
        const size_t place = (size_t)(row - b->rows);
        if (waits(b, row, whole))
            break; /* younger ones wait, too */
        if (!admit(b, row)) {
            if (row->live && !take_from_younger(b, row))
                break;
            continue;
        }
        b->budget -= reads_alone(b, row) ? read_piece(b, place) : read_together(b, place);
    }
    return whole - b->budget;
}

void weft__batch_read(weft_running_batch *b)
{
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        if (reads(row) && weft__interrupted(row->run.generator))
            weft__row_next(row);
    }
    b->budget = budget_of(b);
    const double began = weft__seconds();
    const int64_t n = read_oldest(b);
    const double rate = (double)n / (weft__seconds() - began + 1e-9);
    if (n >= LEAST_READ) /* rates of fewer are far lower */
        b->read_rate = b->read_rate > 0 ? (b->read_rate + rate) / 2 : rate;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The inputs of a step on the host, by slot. */
typedef struct inputs {
    int32_t *tokens, *offsets, *adapters; /* the last: weft__lora_number */
    weft__row **rows;                     /* the n sequences that get a token, and their slots */
    size_t *which, n;
    int64_t longest, left; /* longest sequence so far, and most tokens still to come */
} inputs;

static void gather(weft_running_batch *b, inputs *in)
{
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        in->tokens[i] = in->offsets[i] = in->adapters[i] = 0;
        if (!weft__row_decodes(row))
            continue;
        const weft_generator *g = row->run.generator;
        const int64_t left = g->limit - g->stats.tokens;
        in->tokens[i] = g->text[g->n_text - 1];
        in->offsets[i] = (int32_t)(g->n_text - 1);
        if (row->adapter)
            in->adapters[i] = weft__lora_number(b->options.adapters, row->adapter);
        in->longest = g->n_text > in->longest ? g->n_text : in->longest;
        in->left = left > in->left ? left : in->left;
        in->which[in->n] = i;
        in->rows[in->n++] = row;
    }
}

/* Makes the model compute each row with its adapter. *mixed: whether they differ. */
static weft_status use_adapters(const weft_running_batch *b, const inputs *in, bool *mixed)
{
    const weft_nn_lora_member *first = in->rows[0]->adapter;
    *mixed = false;
    for (size_t i = 1; i < in->n; i++)
        *mixed = *mixed || in->rows[i]->adapter != first;
    if (*mixed)
        return weft__lora_bank_mix(b->options.adapters);
    weft__batch_use(b, first);
    return WEFT_OK;
}

/* The step of the inputs. With `tokens`, which are the most probable tokens of that step, the step
 * after it. */
static weft_status compute(weft_running_batch *b, inputs *in, weft_array *tokens, weft_array **out)
{
    const weft_dims B = WEFT_DIMS((int64_t)b->places);
    bool mixed = false;
    weft_status status = use_adapters(b, in, &mixed);
    if (status == WEFT_OK)
        status = weft__batch_reserve_rows(b, in->longest + (tokens != NULL));
    for (size_t i = 0; tokens && i < in->n; i++)
        in->offsets[in->which[i]]++;
    if (status != WEFT_OK)
        return status;
    const weft__paging paging = weft__batch_paging(b, in->offsets);
    weft_array *const arguments[] = {
        tokens ? tokens : weft_from_data(in->tokens, WEFT_INT32, B),
        weft_from_data(in->offsets, WEFT_INT32, B),
        paging.table,
        paging.places,
        mixed ? weft_from_data(in->adapters, WEFT_INT32, B) : NULL,
    };
    return weft__batch_decode(b, arguments, in->rows[0]->adapter, in->left, out);
}

/* ---- the step after ------------------------------------------------------------------------- */

/* Whether the next step can be enqueued before the tokens are read, since each is the most probable
 * one, after which no text is processed again. For a sequence that ends with its token, one extra
 * step is computed and discarded. */
static bool can_go_ahead(weft_running_batch *b, const inputs *in)
{
    bool can = b->compiled && in->n > 0 && in->left > 1;
    for (size_t i = 0; i < in->n && can; i++) {
        const weft_generator *g = in->rows[i]->run.generator;
        can = weft__draw_is_greedy(g) && !(g->options.shift && g->stats.tokens + 1 >= g->limit) &&
              g->n_text != weft_model_info_of(b->model)->renews_at;
    }
    return can && weft__batch_reserve_ahead(b);
}

static weft_status go_ahead(weft_running_batch *b, inputs *in, weft_array *most)
{
    weft_array *out[WEFT__RESULTS];
    size_t *requests = weft_malloc((b->places + 1) * sizeof *requests);
    if (requests == NULL)
        return weft__out_of_memory("generate", NULL);
    const weft_status status = compute(b, in, most, out);
    if (status != WEFT_OK) {
        weft_free(requests);
        return status;
    }
    for (size_t i = 0; i < b->places; i++)
        requests[i] = SIZE_MAX;
    for (size_t i = 0; i < in->n; i++)
        requests[in->which[i]] = in->rows[i]->index;
    b->ahead = weft_keep(out[WEFT__ARGMAX]);
    b->ahead_requests = requests;
    b->ahead_places = b->places;
    return WEFT_OK;
}

static void drop_ahead(weft_running_batch *b)
{
    weft_drop(b->ahead);
    weft_free(b->ahead_requests);
    b->ahead = NULL;
    b->ahead_requests = NULL;
}

/* Restricts the inputs to the sequences of the step that was enqueued ahead, by its slots. Returns
 * whether these are all, in the same slots as now. */
static bool take_ahead(const weft_running_batch *b, inputs *in)
{
    size_t n = 0;
    bool same = b->ahead_places == b->places;
    for (size_t i = 0; i < in->n; i++) {
        size_t slot = 0;
        while (slot < b->ahead_places && b->ahead_requests[slot] != in->rows[i]->index)
            slot++;
        same = same && slot == in->which[i];
        if (slot < b->ahead_places) {
            in->rows[n] = in->rows[i];
            in->which[n++] = slot;
        }
    }
    in->n = n;
    return same;
}

/* The step of the inputs: the one that was enqueued ahead, or a new one; and the one after it. */
static weft_status step(weft_running_batch *b, inputs *in)
{
    weft_array *out[WEFT__RESULTS] = {NULL}, *ahead = weft_keep(b->ahead);
    bool all = true;
    weft_status status = WEFT_OK;
    if (ahead) {
        all = take_ahead(b, in);
        out[WEFT__ARGMAX] = ahead;
        drop_ahead(b);
    } else {
        status = compute(b, in, NULL, out);
    }
    if (status == WEFT_OK && all && can_go_ahead(b, in))
        (void)go_ahead(b, in, out[WEFT__ARGMAX]); /* if it fails, so does the next step itself */
    if (status == WEFT_OK && in->n > 0)
        status = weft__batch_draw(in->rows, in->which, in->n, out[WEFT__LOGITS], out[WEFT__ARGMAX]);
    weft_drop(ahead);
    return status;
}

/* Forgets all that was computed in the batch's caches, also for prompts that share pages of it. */
static void clear(weft_running_batch *b)
{
    drop_ahead(b);
    for (size_t i = 0; i < b->places; i++) {
        if (b->rows[i].live)
            weft__row_give_pages(&b->rows[i]);
    }
    weft__batch_drop_steps(b);
    for (int64_t i = 0; b->caches && i < n_caches(b); i++)
        weft_cache_reset(b->caches[i]);
}

/* Fails all sequences in the batch's caches, whose arrays may have failed with a step. */
static void fail_step(weft_running_batch *b, weft_status status)
{
    for (size_t i = 0; i < b->places; i++) {
        weft__row *row = &b->rows[i];
        if (weft__row_decodes(row))
            weft__row_fail(row, status);
    }
    clear(b);
}

weft_status weft__batch_step(weft_running_batch *b)
{
    const size_t B = b->places + 1;
    inputs in = {.tokens = weft_malloc(B * sizeof *in.tokens),
                 .offsets = weft_malloc(B * sizeof *in.offsets),
                 .adapters = weft_malloc(B * sizeof *in.adapters),
                 .rows = weft_malloc(B * sizeof *in.rows),
                 .which = weft_malloc(B * sizeof *in.which)};
    const bool memory = in.tokens && in.offsets && in.adapters && in.rows && in.which;
    weft_status status = memory ? weft__batch_reserve(b) : WEFT_OK;
    if (memory && status == WEFT_OK)
        gather(b, &in);
    const double began = weft__seconds();
    weft_scope_open_lean();
    if (in.n > 0)
        status = step(b, &in);
    weft_scope_close(NULL);
    b->step_seconds = weft__seconds() - began;
    if (status != WEFT_OK)
        fail_step(b, status);
    weft_free(in.tokens);
    weft_free(in.offsets);
    weft_free(in.adapters);
    weft_free(in.rows);
    weft_free(in.which);
    return memory ? WEFT_OK : weft__out_of_memory("generate", NULL);
}

void weft__batch_empty(weft_running_batch *b)
{
    clear(b);
    weft_model_free_caches(b->model, b->caches);
    b->caches = NULL;
    b->paged = NULL;
    weft__pages_clear(&b->pages);
}
