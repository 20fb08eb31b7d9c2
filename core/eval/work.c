/* core/eval/work.c -- operations and bytes of a step: the op's own count, or its operands' bytes
 * and its formula's steps. */
#include "core/eval/work.h"

#include <string.h>

#include "core/device.h"
#include "core/eval/prologue.h"

enum { MOST_COUNTED = 17 }; /* inputs of an op that counts its work */

/* Bytes that a kernel reads or writes at least: broadcast elements count once. */
static double operand_bytes(const weft_tensor *t)
{
    if (t->encoding)
        return (double)weft_encoding_bytes(t->encoding, weft_tensor_size(t));
    double n = (double)weft_dtype_size(t->dtype);
    for (int axis = 0; axis < t->shape.n; axis++)
        n *= t->strides[axis] != 0 || t->shape.at[axis] == 0 ? (double)t->shape.at[axis] : 1;
    return n;
}

static bool is_same_memory(const weft_tensor *a, const weft_tensor *b)
{
    return a->buffer == b->buffer && a->data == b->data && a->offset == b->offset;
}

/* Bytes of an op that moves elements. It reads no more of an input than it writes. If it writes
 * into its first input, only the elements of the others are moved. */
static double moved_bytes(const weft_call *call)
{
    const double out = operand_bytes(&call->out[0]);
    const bool in_place = call->n_inputs > 0 && is_same_memory(&call->in[0], &call->out[0]);
    double sum = in_place ? 0 : out;
    for (int i = in_place; i < call->n_inputs; i++) {
        const double in = operand_bytes(&call->in[i]);
        sum += in_place ? 2 * in : in < out ? in : out;
    }
    return sum;
}

static double call_bytes(const weft_call *call)
{
    double sum = 0;
    if (call->op->family == WEFT_STRUCTURAL && call->n_outputs == 1 && !call->formula)
        return moved_bytes(call);
    for (int i = 0; i < call->n_inputs; i++)
        sum += operand_bytes(&call->in[i]);
    for (int o = 0; o < call->n_outputs; o++)
        sum += call->out[o].shape.n >= 0 ? operand_bytes(&call->out[o]) : 0;
    return sum;
}

static double tape_flops(const weft_tape *tape, const weft_tensor *over)
{
    int64_t steps = 0;
    for (int i = 0; i < tape->n_steps; i++) {
        const weft_tape_code code = (weft_tape_code)tape->steps[i].code;
        steps += code != WEFT_TAPE_CONST && code != WEFT_TAPE_ROUND16 && code != WEFT_TAPE_ROUNDB;
    }
    return (double)steps * (double)weft_tensor_size(over);
}

/* The op's own count. Where kernels return before they are done, inputs may not be computed yet, so
 * the op sees no elements. */
static void count(const weft_call *call, weft_work *work)
{
    weft_tensor in[MOST_COUNTED];
    weft_call seen = *call;
    if (call->n_inputs > MOST_COUNTED)
        return;
    if (call->device->backend->wait) {
        memcpy(in, call->in, (size_t)call->n_inputs * sizeof *in);
        for (int i = 0; i < call->n_inputs; i++)
            in[i].data = NULL;
        seen.in = in;
    }
    call->op->work(&seen, work);
}

/* tape: of the op, or NULL if the op has one for the dtype of its last input. */
static weft_work call_work(const weft_call *call, const weft_tape *tape)
{
    const weft_op *op = call->op;
    weft_work work = {.bytes = call_bytes(call)};
    if (!tape && op->family == WEFT_ELEMENTWISE && call->n_inputs > 0)
        tape = weft_op_tape(op, call->in[call->n_inputs - 1].dtype);
    if (call->formula)
        work.flops = tape_flops(call->formula->tape, &call->formula->x);
    else if (op->work)
        count(call, &work);
    else if (tape && call->n_outputs == 1 && weft_dtype_is_float(call->out[0].dtype))
        work.flops = tape_flops(tape, &call->out[0]);
    return work;
}

/* The work of each op alone, without the bytes of the results that are not stored, and with those
 * of the first input that two results share once. */
static weft_work joined_work(const weft_call *call)
{
    const weft_call_epilogue *e = call->epilogue;
    const double result = operand_bytes(&e->result);
    weft_tensor in[WEFT_MAX_OPERANDS];
    for (int i = 0; i < e->n_operands; i++)
        in[i] = e->operands[i] >= 0 ? call->in[e->operands[i]] : e->result;
    weft_call one = *call;
    one.epilogue = NULL;
    one.op = e->op;
    one.params = e->params;
    one.n_inputs = e->n_operands;
    one.in = in;
    weft_work sum = call_work(&one, NULL);
    one = *call;
    one.epilogue = NULL;
    one.n_inputs = e->n_inputs;
    one.out = &e->result;
    for (int r = 0; r < e->n_results; r++) {
        one.in = call->in + r * e->n_inputs;
        const weft_work own = call_work(&one, NULL);
        sum.flops += own.flops;
        sum.bytes += own.bytes - 2 * result - (r > 0 ? operand_bytes(&one.in[0]) : 0);
    }
    return sum;
}

/* The work of the op that makes the first operand, which is read once for both. */
static weft_work prologue_work(const weft_call *call, int own)
{
    weft_tensor in[WEFT_MAX_OPERANDS];
    weft_call one = *call;
    one.op = call->prologue->op;
    one.params = call->prologue->params;
    one.n_inputs = call->prologue->n_inputs;
    one.n_outputs = 1;
    one.epilogue = NULL;
    one.prologue = NULL;
    in[0] = call->in[0];
    for (int i = 1; i < one.n_inputs; i++)
        in[i] = call->in[own + i - 1];
    one.in = one.out = in;
    weft_work work = call_work(&one, NULL);
    work.bytes -= 2 * operand_bytes(&in[0]);
    return work;
}

weft_work weft__step_work(const weft__step *step)
{
    weft_call call = step->call;
    weft_work first = {0};
    if (step->kind == WEFT__STEP_TRANSFER)
        return (weft_work){.bytes = call_bytes(&call)};
    if (call.prologue) {
        call.n_inputs = weft__prologue_own(&call);
        first = prologue_work(&call, call.n_inputs);
        call.prologue = NULL;
    }
    const weft_work work = call.epilogue ? joined_work(&call) : call_work(&call, step->tape);
    return (weft_work){.flops = work.flops + first.flops, .bytes = work.bytes + first.bytes};
}

const char *weft__step_variant(const weft__step *step)
{
    const weft_call *call = &step->call;
    const int n = call->n_inputs < WEFT_MAX_OPERANDS ? call->n_inputs : WEFT_MAX_OPERANDS;
    int i = 0;
    while (i < n && !(call->op->takes_encoded >> i & 1))
        i++;
    const weft_tensor *t = i < n                ? &call->in[i]
                           : call->formula      ? &call->formula->x
                           : call->n_inputs > 0 ? &call->in[0]
                                                : &call->out[0];
    return t->encoding ? t->encoding->name : weft_dtype_name(t->dtype);
}
