/* train/data/members.c -- the members of rows: which kind of row has which, and what each is for.
 */
#include "train/data/members.h"

#include <json-c/linkhash.h>
#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "weft/memory.h"

#define K(KIND) (1U << WEFT_ROW_##KIND)
#define ASKED (K(COMPLETION) | K(ALPACA) | K(QUESTION) | K(PREFERENCE))
#define SPOKEN (ASKED | K(MESSAGES) | K(SHAREGPT))

/* Every member that is read, with its purpose in rows of some kinds. Of several members with one
 * purpose, the first is preferred. All other members are unused. */
static const struct {
    const char *name;
    weft__member purpose;
    unsigned kinds;
} members[] = {
    {"messages", WEFT__MEMBER_LIST, K(MESSAGES)},
    {"conversations", WEFT__MEMBER_LIST, K(SHAREGPT)},
    {"chosen", WEFT__MEMBER_CHOSEN, K(PREFERENCE)},
    {"rejected", WEFT__MEMBER_REJECTED, K(PREFERENCE)},
    {"prompt", WEFT__MEMBER_PROMPT, K(COMPLETION) | K(PREFERENCE)},
    {"question", WEFT__MEMBER_PROMPT, K(QUESTION) | K(PREFERENCE)},
    {"instruction", WEFT__MEMBER_PROMPT, K(ALPACA) | K(PREFERENCE)},
    {"conversations", WEFT__MEMBER_EARLIER, K(PREFERENCE)},
    {"messages", WEFT__MEMBER_EARLIER, K(PREFERENCE)},
    {"completion", WEFT__MEMBER_ANSWER, K(COMPLETION)},
    {"output", WEFT__MEMBER_ANSWER, K(ALPACA)},
    {"answer", WEFT__MEMBER_ANSWER, K(QUESTION)},
    {"response", WEFT__MEMBER_ANSWER, K(COMPLETION) | K(ALPACA) | K(QUESTION)},
    {"input", WEFT__MEMBER_CONTEXT, ASKED},
    {"context", WEFT__MEMBER_CONTEXT, ASKED},
    {"history", WEFT__MEMBER_HISTORY, ASKED},
    {"system", WEFT__MEMBER_SYSTEM, SPOKEN},
    {"system_prompt", WEFT__MEMBER_SYSTEM, SPOKEN},
    {"tools", WEFT__MEMBER_TOOLS, SPOKEN},
    {"chat_template_kwargs", WEFT__MEMBER_VARIABLES, SPOKEN},
    {"text", WEFT__MEMBER_TEXT, K(TEXT)},
    {"label", WEFT__MEMBER_LABEL, K(TEXT) | K(COMPLETION)},
};

#undef K
#undef ASKED
#undef SPOKEN

enum { N_MEMBERS = sizeof members / sizeof *members, NO_MEMBER = -1 };
_Static_assert(N_MEMBERS <= 32, "weft__data_row.taken has a bit for each member");

/* The purposes that a row of each kind must have, in the order of weft_row_kind. */
static const struct {
    int n;
    weft__member at[2];
} required[WEFT_ROW_KINDS] = {
    [WEFT_ROW_MESSAGES] = {1, {WEFT__MEMBER_LIST}},
    [WEFT_ROW_SHAREGPT] = {1, {WEFT__MEMBER_LIST}},
    [WEFT_ROW_PREFERENCE] = {2, {WEFT__MEMBER_CHOSEN, WEFT__MEMBER_REJECTED}},
    [WEFT_ROW_COMPLETION] = {2, {WEFT__MEMBER_PROMPT, WEFT__MEMBER_ANSWER}},
    [WEFT_ROW_ALPACA] = {2, {WEFT__MEMBER_PROMPT, WEFT__MEMBER_ANSWER}},
    [WEFT_ROW_QUESTION] = {2, {WEFT__MEMBER_PROMPT, WEFT__MEMBER_ANSWER}},
    [WEFT_ROW_TEXT] = {1, {WEFT__MEMBER_TEXT}},
};

bool weft__value_is_empty(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return true;
    case json_type_string:
        return json_object_get_string_len(value) == 0;
    case json_type_array:
        return json_object_array_length(value) == 0;
    case json_type_object:
        return json_object_object_length(value) == 0;
    default:
        return false;
    }
}

/* ---- members -------------------------------------------------------------------------------- */

static bool fits(int i, weft_row_kind kind, weft__member purpose)
{
    return members[i].purpose == purpose && (members[i].kinds >> kind & 1U) != 0;
}

/* The entry of the member with this purpose: the first that is not empty, else the first that is
 * not null. */
static int find(const weft__json *json, weft_row_kind kind, weft__member purpose)
{
    int found = NO_MEMBER;
    for (int i = 0; i < N_MEMBERS; i++) {
        json_object *value = NULL;
        if (!fits(i, kind, purpose) ||
            !json_object_object_get_ex(json->value, members[i].name, &value) || value == NULL)
            continue;
        if (!weft__value_is_empty(value))
            return i;
        found = found == NO_MEMBER ? i : found;
    }
    return found;
}

/* The preferred name of the member with this purpose. */
static const char *name_of(weft_row_kind kind, weft__member purpose)
{
    int i = 0;
    while (!fits(i, kind, purpose))
        i++;
    return members[i].name;
}

const char *weft__data_row_take(weft__data_row *row, weft__member purpose, weft__json *out)
{
    const int i = find(row->json, row->kind, purpose);
    *out = (weft__json){.name = row->json->name};
    if (i == NO_MEMBER || weft__json_find(row->json, members[i].name, out) != WEFT_OK)
        return NULL;
    row->taken |= 1U << i;
    return members[i].name;
}

bool weft__data_row_has(const weft__data_row *row, weft__member purpose)
{
    for (int i = 0; i < N_MEMBERS; i++) {
        if (fits(i, row->kind, purpose) &&
            json_object_object_get_ex(row->json->value, members[i].name, NULL))
            return true;
    }
    return false;
}

/* ---- kinds ---------------------------------------------------------------------------------- */

/* The number of required members that the row has; the first that it lacks. */
static int count_required(const weft__json *json, weft_row_kind kind, weft__member *lacking)
{
    int n = 0;
    for (int k = required[kind].n - 1; k >= 0; k--) {
        if (find(json, kind, required[kind].at[k]) != NO_MEMBER)
            n++;
        else
            *lacking = required[kind].at[k];
    }
    return n;
}

static bool is_kind(const weft__json *json, weft_row_kind kind)
{
    weft__member lacking;
    return count_required(json, kind, &lacking) == required[kind].n;
}

/* Writes the names of the row's members, as many as fit. */
static void name_members(const weft__json *row, char *out, size_t size)
{
    size_t n = 0;
    snprintf(out, size, "no members");
    json_object_object_foreach(row->value, key, value)
    {
        const char *null = value ? "" : ": null";
        const size_t more = strlen(key) + strlen(", \"\": null, ...");
        if (n + more >= size) {
            snprintf(out + n, size - n, n > 0 ? ", ..." : "other members");
            return;
        }
        n += (size_t)snprintf(out + n, size - n, "%s\"%s\"%s", n > 0 ? ", " : "", key, null);
    }
}

static weft_status no_kind(const weft__json *json)
{
    char found[200];
    name_members(json, found, sizeof found);
    for (int k = 0; k < WEFT_ROW_KINDS; k++) {
        const weft_row_kind kind = (weft_row_kind)k;
        weft__member lacking = required[k].at[0];
        if (count_required(json, kind, &lacking) == 0)
            continue;
        const weft__member other = required[k].at[lacking == required[k].at[0]];
        return weft__json_fail(json, WEFT_INVALID, "expected \"%s\" beside \"%s\", got %s",
                               name_of(kind, lacking), name_of(kind, other), found);
    }
    return weft__json_fail(json, WEFT_INVALID,
                           "expected \"text\", \"prompt\" and \"completion\", \"messages\", "
                           "\"conversations\", \"instruction\" and \"output\", or \"question\" and "
                           "\"answer\", got %s",
                           found);
}

weft_status weft__data_row_open(const weft__json *json, weft_examples examples, weft__data_row *row)
{
    const weft_status status = weft__json_as_object(json);
    *row = (weft__data_row){.json = json, .kind = WEFT_ROW_TEXT};
    if (status != WEFT_OK)
        return status;
    int kind = 0;
    while (kind < WEFT_ROW_KINDS && !is_kind(json, (weft_row_kind)kind))
        kind++;
    if (kind == WEFT_ROW_KINDS)
        return no_kind(json);
    /* Preference rows may also have "messages", which are for supervised training. */
    if (examples != WEFT_EXAMPLES_SINGLE && is_kind(json, WEFT_ROW_PREFERENCE))
        kind = WEFT_ROW_PREFERENCE;
    else if (examples == WEFT_EXAMPLES_LABELED && is_kind(json, WEFT_ROW_COMPLETION) &&
             find(json, WEFT_ROW_COMPLETION, WEFT__MEMBER_LABEL) != NO_MEMBER)
        kind = WEFT_ROW_COMPLETION;
    row->kind = (weft_row_kind)kind;
    return WEFT_OK;
}

/* ---- unused members ------------------------------------------------------------------------- */

void weft__unused_add(weft__unused *unused, const char *name, bool *counted)
{
    int i = 0;
    while (i < unused->n && strncmp(unused->at[i].name, name, sizeof unused->at[i].name - 1) != 0)
        i++;
    if (i == (int)(sizeof unused->at / sizeof *unused->at)) {
        unused->others += !*counted;
        *counted = true;
        return;
    }
    if (i == unused->n)
        snprintf(unused->at[unused->n++].name, sizeof unused->at[i].name, "%s", name);
    unused->at[i].rows++;
}

void weft__data_row_count_unused(const weft__data_row *row, weft__unused *unused)
{
    bool counted = false;
    json_object_object_foreach(row->json->value, key, value)
    {
        bool taken = weft__value_is_empty(value);
        for (int i = 0; i < N_MEMBERS && !taken; i++)
            taken = (row->taken >> i & 1U) != 0 && strcmp(members[i].name, key) == 0;
        if (!taken)
            weft__unused_add(unused, key, &counted);
    }
}

void weft__unused_report(const weft__unused *unused, const char *source, weft__said *said)
{
    char names[1024] = "";
    size_t n = 0;
    for (int i = 0; i < unused->n && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s (%lld)", i > 0 ? ", " : "",
                              weft_printable(unused->at[i].name), (long long)unused->at[i].rows);
    if (unused->others > 0 && n < sizeof names)
        snprintf(names + n, sizeof names - n, ", and others (%lld)", (long long)unused->others);
    if (unused->n > 0)
        weft__data_warn(said, "%s: members of rows that are not used (and in how many rows): %s",
                        source, names);
}
