/* train/data/preference.c -- preference pairs: rows with a chosen and a rejected completion. */
#include <string.h>

#include "core/failure.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* The prompt of a row and its two completions, owned. */
typedef struct preference {
    json_object *prompt, *completions[2];
} preference;

static const char *const sides[] = {"chosen", "rejected"};

static void release(preference *p)
{
    json_object_put(p->prompt);
    json_object_put(p->completions[0]);
    json_object_put(p->completions[1]);
}

/* The length in bytes of the common prefix of two texts. It ends at the start of a UTF-8 character,
 * and a space before the first difference belongs to the completions. */
static size_t same_bytes(const char *a, size_t n, const char *b, size_t m)
{
    size_t k = 0;
    while (k < n && k < m && a[k] == b[k])
        k++;
    while (k > 0 && k < n && ((unsigned char)a[k] & 0xC0) == 0x80)
        k--;
    return k > 0 && a[k - 1] == ' ' ? k - 1 : k;
}

static weft_status part_texts(const weft__json both[2], preference *out)
{
    const char *a, *b;
    size_t n, m;
    weft_status status = weft__json_as_string(&both[0], &a, &n);
    if (status == WEFT_OK)
        status = weft__json_as_string(&both[1], &b, &m);
    if (status != WEFT_OK)
        return status;
    const size_t k = same_bytes(a, n, b, m);
    out->prompt = json_object_new_string_len(a, (int)k);
    out->completions[0] = json_object_new_string_len(a + k, (int)(n - k));
    out->completions[1] = json_object_new_string_len(b + k, (int)(m - k));
    return WEFT_OK;
}

/* Copies messages [begin, end) of a list to a new array. */
static json_object *messages_of(json_object *list, size_t begin, size_t end)
{
    json_object *out = json_object_new_array();
    for (size_t i = begin; out && i < end; i++) {
        json_object *copy = NULL;
        if (json_object_deep_copy(json_object_array_get_idx(list, i), &copy, NULL) != 0 ||
            json_object_array_add(out, copy) != 0) {
            json_object_put(copy);
            json_object_put(out);
            return NULL;
        }
    }
    return out;
}

/* Splits both lists: their common first messages are the prompt. */
static weft_status part_messages(const weft__json both[2], preference *out)
{
    size_t n[2], k = 0;
    for (int i = 0; i < 2; i++) {
        const weft_status status = weft__json_length(&both[i], &n[i]);
        if (status != WEFT_OK)
            return status;
    }
    while (k < n[0] && k < n[1] &&
           json_object_equal(json_object_array_get_idx(both[0].value, k),
                             json_object_array_get_idx(both[1].value, k)))
        k++;
    out->prompt = messages_of(both[0].value, 0, k);
    for (int i = 0; i < 2; i++)
        out->completions[i] = messages_of(both[i].value, k, n[i]);
    return WEFT_OK;
}

/* Reads a row. The prompt is the row's "prompt", or the common prefix of "chosen" and "rejected".
 * The prefix is also used if "prompt" is a text and both others are complete conversations. */
static weft_status read_row(const weft__json *row, preference *out)
{
    weft__json prompt = {.value = NULL}, both[2];
    weft_status status = weft__json_find(row, "prompt", &prompt);
    for (int i = 0; status == WEFT_OK && i < 2; i++)
        status = weft__json_get(row, sides[i], &both[i]);
    if (status != WEFT_OK)
        return status;
    const bool lists = json_object_is_type(both[0].value, json_type_array);
    if (lists != json_object_is_type(both[1].value, json_type_array))
        return weft__json_fail(row, WEFT_INVALID,
                               "expected \"chosen\" and \"rejected\" to be both texts or both "
                               "arrays of messages");
    if (!lists && json_object_is_type(prompt.value, json_type_array))
        return weft__json_fail(row, WEFT_INVALID,
                               "\"prompt\" is an array of messages: expected \"chosen\" and "
                               "\"rejected\" to be arrays of messages too");
    if (prompt.value && lists == json_object_is_type(prompt.value, json_type_array)) {
        const size_t n = lists ? json_object_array_length(prompt.value) : 0;
        out->prompt = lists ? messages_of(prompt.value, 0, n) : json_object_get(prompt.value);
        for (int i = 0; i < 2; i++)
            out->completions[i] =
                lists ? messages_of(both[i].value, 0, json_object_array_length(both[i].value))
                      : json_object_get(both[i].value);
    } else {
        status = lists ? part_messages(both, out) : part_texts(both, out);
    }
    if (status == WEFT_OK && (!out->prompt || !out->completions[0] || !out->completions[1]))
        status = weft__out_of_memory(row->name, NULL);
    return status;
}

/* Adds both samples to r->rows, whatever their length. */
static weft_status add_samples(weft__reader *r, const weft__json *row, const preference *p)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        const weft__json prompt = {.value = p->prompt, .name = row->name};
        const weft__json completion = {.value = p->completions[i], .name = row->name};
        const weft_dataset_info before = r->rows->info;
        status = weft__reader_add_completion(r, row, &prompt, &completion);
        const int64_t made = r->rows->info.samples - before.samples;
        if (status == WEFT_OK && made + r->rows->info.empty - before.empty != 1)
            status = weft__json_fail(row, WEFT_UNSUPPORTED,
                                     "%s: expected one turn of the assistant, or a chat template "
                                     "that renders all of them alike",
                                     sides[i]);
    }
    return status;
}

weft_status weft__reader_add_preference(weft__reader *r, const weft__json *row)
{
    preference p = {NULL};
    weft_dataset *made = NULL, *rows = r->rows;
    weft_status status = weft_dataset_new(INT32_MAX, &made);
    if (status == WEFT_OK)
        status = read_row(row, &p);
    if (status == WEFT_OK) {
        r->rows = made;
        status = add_samples(r, row, &p);
        r->rows = rows;
    }
    if (status == WEFT_OK && made->info.samples < 2) {
        rows->info.empty++;
    } else if (status == WEFT_OK) {
        weft_sample chosen = weft_dataset_at(made, 0), rejected = weft_dataset_at(made, 1);
        chosen.group = rejected.group = ++r->n_rows; /* a split keeps a group together */
        if (r->o.examples == WEFT_EXAMPLES_PAIRS) {
            status = weft_dataset_add_pair(rows, &chosen, &rejected);
        } else {
            status = weft_dataset_add_labelled(rows, &chosen, true);
            if (status == WEFT_OK)
                status = weft_dataset_add_labelled(rows, &rejected, false);
        }
        if (status == WEFT_INVALID)
            status = weft_fail(status, "%s: %s", r->where, weft_error_message());
    }
    rows->info.rendered += status == WEFT_OK && made->info.rendered > 0;
    weft_dataset_free(made);
    release(&p);
    return status;
}
