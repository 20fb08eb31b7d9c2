/* backends/vulkan/spirv/writer.c -- writes the shader for a tape: the main of a linked module,
 * which only calls functions of the library. */
#include "backends/vulkan/spirv/writer.h"

#include <stdio.h>

#include "backends/vulkan/spirv/library.h"
#include "backends/vulkan/spirv/opcodes.h"

/* The types of values; PAIR is eight bytes that are only moved. */
typedef enum form { FLOAT, DOUBLE, INT, UINT, LONG, ULONG, PAIR } form;

static const char *const form_names[] = {"float", "double", "int", "uint", "int64", "uint64", ""};
static const char *const parameter_names[] = {"f1", "d1", "i1", "u1", "i641", "u641", ""};

enum { MAX_LANES = 4, MAX_VALUES = WEFT_MAX_OPERANDS + WEFT_TAPE_MAX_STEPS };

typedef struct writer {
    const spirv_library *library;
    const spirv_plan *plan;
    spirv_main main;
    form form;        /* type of the computation */
    weft_dtype dtype; /* dtype at whose width integers wrap */
    uint32_t item;    /* index of the elements that this invocation computes */
    uint32_t values[MAX_LANES][MAX_VALUES];
    bool missing; /* the library lacks a function that was called */
} writer;

/* ---- types for dtypes ------------------------------------------------------------------------ */

static form form_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT64:
        return LONG;
    case WEFT_UINT64:
        return ULONG;
    case WEFT_FLOAT64:
        return DOUBLE;
    default:
        return dtype >= WEFT_FLOAT16 ? FLOAT : weft_dtype_is_signed(dtype) ? INT : UINT;
    }
}

static bool is_move(const spirv_plan *p)
{
    return p->tape->n_steps == 0 && p->in[0] == p->out;
}

/* Elements that are only moved are words of their size. */
static const char *moved_as(weft_dtype dtype)
{
    switch (weft_dtype_size(dtype)) {
    case 1:
        return "uint8";
    case 2:
        return "uint16";
    case 4:
        return "uint32";
    default:
        return "pair";
    }
}

static void choose_form(writer *w)
{
    const spirv_plan *p = w->plan;
    w->dtype = p->in[0];
    for (int i = 1; i < p->n_in; i++) {
        w->dtype = weft_promote(w->dtype, p->in[i]);
    }
    if (p->tape->n_steps == 0) {
        bool pair = is_move(p) && weft_dtype_size(p->out) == 8;
        w->form = pair ? PAIR : is_move(p) ? UINT : form_of(w->dtype);
    } else if (p->tape->klass == WEFT_CLASS_REAL) {
        w->form = w->dtype == WEFT_FLOAT64 ? DOUBLE : FLOAT;
    } else {
        w->form = p->tape->klass == WEFT_CLASS_BOOL ? UINT : form_of(w->dtype);
    }
}

spirv_needs weft__spirv_needs(const spirv_plan *plan)
{
    writer w = {.plan = plan};
    choose_form(&w);
    if (is_move(plan)) {
        return (spirv_needs){false, false};
    }
    spirv_needs needs = {w.form == DOUBLE, w.form == LONG || w.form == ULONG};
    for (int i = 0; i <= plan->n_in; i++) {
        form f = form_of(i < plan->n_in ? plan->in[i] : plan->out);
        needs.float64 |= f == DOUBLE;
        needs.int64 |= f == LONG || f == ULONG;
    }
    return needs;
}

/* ---- instructions --------------------------------------------------------------------------- */

static uint32_t new_id(writer *w)
{
    return w->main.bound++;
}

static uint32_t find(writer *w, const char *name)
{
    uint32_t function = weft__spirv_find(w->library, name);
    w->missing |= function == 0;
    return function;
}

/* Calls the function of that name. */
static uint32_t call(writer *w, const char *name, const uint32_t *arguments, int n)
{
    uint32_t function = find(w, name);
    if (!function) {
        return 0;
    }
    uint32_t words[3 + 3] = {weft__spirv_result(w->library, function), new_id(w), function};
    for (int i = 0; i < n; i++) {
        words[3 + i] = arguments[i];
    }
    spirv_emit(&w->main.body, SPIRV_OP_FUNCTION_CALL, words, 3 + (size_t)n);
    return words[1];
}

#define CALL(w, name, ...)                                                                         \
    call(w, name, (const uint32_t[]){__VA_ARGS__},                                                 \
         (int)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

/* Calls name_(form;form;...) with n operands of that form. */
static uint32_t call_form(writer *w, const char *name, form f, const uint32_t *arguments, int n)
{
    char text[64];
    int length = snprintf(text, sizeof text, "%s_(", name);
    for (int i = 0; i < n; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s;", parameter_names[f]);
    }
    return call(w, text, arguments, n);
}

/* Calls name_SUFFIX(...), for functions named after a dtype. */
static uint32_t call_dtype(writer *w, const char *name, const char *suffix,
                           const uint32_t *arguments, int n)
{
    char text[64];
    snprintf(text, sizeof text, "%s_%s(", name, suffix);
    return call(w, text, arguments, n);
}

/* The id of the type for a form: the result type of its select function. */
static uint32_t type_of(writer *w, form f)
{
    char text[64];
    const char *p = parameter_names[f];
    snprintf(text, sizeof text, "select_(%s;%s;%s;", p, p, p);
    uint32_t function = find(w, text);
    return function ? weft__spirv_result(w->library, function) : 0;
}

static uint32_t constant(writer *w, form f, uint64_t bits)
{
    uint32_t words[4] = {type_of(w, f), new_id(w), (uint32_t)bits, (uint32_t)(bits >> 32)};
    bool wide = f == DOUBLE || f == LONG || f == ULONG;
    spirv_emit(&w->main.constants, SPIRV_OP_CONSTANT, words, wide ? 4 : 3);
    return words[1];
}

static uint32_t extract(writer *w, uint32_t type, uint32_t vector, uint32_t component)
{
    uint32_t id = new_id(w);
    SPIRV_EMIT(&w->main.body, SPIRV_OP_COMPOSITE_EXTRACT, type, id, vector, component);
    return id;
}

/* ---- conversions ---------------------------------------------------------------------------- */

static uint32_t convert(writer *w, form from, form to, uint32_t value)
{
    char text[64];
    if (from == to) {
        return value;
    }
    snprintf(text, sizeof text, "to_%s(%s;", form_names[to], parameter_names[from]);
    return CALL(w, text, value);
}

static bool is_narrow(weft_dtype dtype)
{
    return weft_dtype_is_integer(dtype) && weft_dtype_size(dtype) < 4;
}

/* Converts a loaded element to the type of the computation. */
static uint32_t from_element(writer *w, weft_dtype dtype, uint32_t value)
{
    bool truth = w->plan->tape->klass == WEFT_CLASS_BOOL && w->plan->tape->n_steps > 0;
    if (truth && dtype != WEFT_BOOL) {
        return call_form(w, "truth", form_of(dtype), &value, 1);
    }
    return w->form == PAIR || is_move(w->plan) ? value : convert(w, form_of(dtype), w->form, value);
}

/* Converts a result to the output's dtype. */
static uint32_t to_element(writer *w, uint32_t value)
{
    const spirv_plan *p = w->plan;
    weft_dtype to = p->out;
    if (is_move(p)) {
        return value;
    }
    if (to == WEFT_BOOL) {
        return call_form(w, "truth", w->form, &value, 1);
    }
    if ((to == WEFT_FLOAT16 || to == WEFT_BFLOAT16) && w->form != FLOAT) {
        return call_form(w, "odd", w->form, &value, 1);
    }
    bool saturates = is_narrow(to) && (w->form == FLOAT || w->form == DOUBLE);
    value = convert(w, w->form, form_of(to), value);
    return saturates ? call_dtype(w, "saturate", weft_dtype_name(to), &value, 1) : value;
}

/* ---- memory --------------------------------------------------------------------------------- */

static void load_operand(writer *w, int k, uint32_t position)
{
    const spirv_plan *p = w->plan;
    bool of_complex = p->in[k] == WEFT_COMPLEX64 && p->out == WEFT_BOOL && !is_move(p);
    const char *name = is_move(p)   ? moved_as(p->in[k])
                       : of_complex ? "truth"
                                    : weft_dtype_name(p->in[k]);
    uint32_t address = CALL(w, "operand_(", constant(w, UINT, (uint64_t)k));
    const uint32_t arguments[2] = {address, position};
    weft_dtype dtype = of_complex ? WEFT_BOOL : p->in[k];
    if (p->lanes == 1 || p->splat[k]) {
        uint32_t value = from_element(w, dtype, call_dtype(w, "load", name, arguments, 2));
        for (int lane = 0; lane < p->lanes; lane++) {
            w->values[lane][k] = value;
        }
        return;
    }
    uint32_t vector = call_dtype(w, "load4", name, arguments, 2);
    uint32_t type = type_of(w, is_move(p) ? UINT : form_of(p->in[k]));
    for (int lane = 0; lane < p->lanes; lane++) {
        uint32_t value = extract(w, type, vector, (uint32_t)lane);
        w->values[lane][k] = from_element(w, dtype, value);
    }
}

static void load_operands(writer *w)
{
    const spirv_plan *p = w->plan;
    uint32_t at[2] = {0, 0}; /* the positions of operands 0 to 3 and 4 to 7 */
    for (int k = 0; k < p->n_in; k++) {
        uint32_t position = w->item;
        if (p->place[k] == SPIRV_ONE) {
            position = constant(w, UINT, 0);
        } else if (p->place[k] == SPIRV_WALK) {
            if (!at[k / 4]) {
                at[k / 4] = CALL(w, "offsets_(", constant(w, UINT, (uint64_t)(k / 4 * 4)), w->item);
            }
            position = extract(w, type_of(w, UINT), at[k / 4], (uint32_t)(k % 4));
        }
        load_operand(w, k, position);
    }
}

static void store_results(writer *w)
{
    const spirv_plan *p = w->plan;
    int result = p->tape->n_steps ? p->tape->n_operands + p->tape->n_steps - 1 : 0;
    const char *name = is_move(p) ? moved_as(p->out) : weft_dtype_name(p->out);
    uint32_t elements[2 + MAX_LANES], arguments[3] = {0, w->item, 0};
    for (int lane = 0; lane < p->lanes; lane++) {
        elements[2 + lane] = to_element(w, w->values[lane][result]);
    }
    arguments[0] = call(w, "result_(", NULL, 0);
    arguments[2] = elements[2];
    if (p->lanes == 4) {
        char text[64];
        snprintf(text, sizeof text, "store4_%s(", name);
        uint32_t function = find(w, text);
        elements[0] = function ? weft__spirv_parameter(w->library, function, 2) : 0;
        elements[1] = arguments[2] = new_id(w);
        spirv_emit(&w->main.body, SPIRV_OP_COMPOSITE_CONSTRUCT, elements, 2 + 4);
    }
    call_dtype(w, p->lanes == 4 ? "store4" : "store", name, arguments, 3);
}

/* ---- the tape ------------------------------------------------------------------------------- */

static uint32_t step_constant(writer *w, const weft_tape_step *step)
{
    float narrow = (float)step->constant;
    uint64_t bits = 0;
    int spare = 64 - 8 * (int)weft_dtype_size(w->dtype);
    switch (w->form) {
    case FLOAT:
        memcpy(&bits, &narrow, sizeof narrow);
        break;
    case DOUBLE:
        memcpy(&bits, &step->constant, sizeof step->constant);
        break;
    default:
        bits = w->plan->tape->klass == WEFT_CLASS_BOOL ? step->constant != 0
               : step->code == WEFT_TAPE_BITS          ? (uint64_t)(64 - spare)
                                                       : (uint64_t)(int64_t)step->constant;
        if (w->plan->tape->klass == WEFT_CLASS_INTEGER) { /* wraps like the result of any step */
            bits = w->form == INT || w->form == LONG ? (uint64_t)((int64_t)(bits << spare) >> spare)
                                                     : bits << spare >> spare;
        }
    }
    return constant(w, w->form, bits);
}

static uint32_t step_result(writer *w, const weft_tape_step *step, const uint32_t *values)
{
    weft_tape_code code = (weft_tape_code)step->code;
    int n = weft_tape_arity(code);
    bool wraps = w->plan->tape->klass == WEFT_CLASS_INTEGER && is_narrow(w->dtype);
    uint32_t arguments[3] = {0};
    for (int i = 0; i < n; i++) {
        arguments[i] = values[step->value[i]];
    }
    uint32_t result = call_form(w, weft_tape_code_name(code), w->form, arguments, n);
    return wraps ? call_dtype(w, "wrap", weft_dtype_name(w->dtype), &result, 1) : result;
}

static void write_steps(writer *w)
{
    const weft_tape *t = w->plan->tape;
    for (int i = 0; i < t->n_steps; i++) {
        const weft_tape_step *step = &t->steps[i];
        int at = t->n_operands + i;
        bool is_constant = weft_tape_arity((weft_tape_code)step->code) == 0;
        uint32_t shared = is_constant ? step_constant(w, step) : 0;
        for (int lane = 0; lane < w->plan->lanes; lane++) {
            w->values[lane][at] = is_constant ? shared : step_result(w, step, w->values[lane]);
        }
    }
}

/* ---- the shader ----------------------------------------------------------------------------- */

static void write_main(writer *w)
{
    spirv_words *body = &w->main.body;
    uint32_t inside = new_id(w), end = new_id(w);
    w->item = call(w, "item_(", NULL, 0);
    uint32_t outside = CALL(w, "outside_(", w->item);
    SPIRV_EMIT(body, SPIRV_OP_SELECTION_MERGE, end, 0);
    SPIRV_EMIT(body, SPIRV_OP_BRANCH_CONDITIONAL, outside, end, inside);
    SPIRV_EMIT(body, SPIRV_OP_LABEL, inside);
    load_operands(w);
    write_steps(w);
    store_results(w);
    SPIRV_EMIT(body, SPIRV_OP_BRANCH, end);
    SPIRV_EMIT(body, SPIRV_OP_LABEL, end);
    spirv_emit(body, SPIRV_OP_RETURN, NULL, 0);
}

bool weft__spirv_write(const spirv_plan *plan, spirv_words *out)
{
    writer w = {.library = weft__spirv_library(), .plan = plan};
    if (!w.library) {
        return false;
    }
    w.main.bound = weft__spirv_bound(w.library);
    w.main.label = new_id(&w);
    choose_form(&w);
    write_main(&w);
    if (!w.missing) {
        weft__spirv_link(w.library, &w.main, out);
    }
    weft_free(w.main.constants.at);
    weft_free(w.main.body.at);
    if (w.missing || out->failed) {
        weft_fail(w.missing ? WEFT_UNSUPPORTED : WEFT_MEMORY, "vulkan: %s",
                  w.missing ? "a tape with a code that no shader has" : "out of memory");
        return false;
    }
    return true;
}
