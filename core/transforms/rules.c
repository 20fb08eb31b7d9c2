/* core/transforms/rules.c -- selects the rule that a transform uses for an op, by the fields of its
 * literal. */
#include "core/transforms/transforms.h"

/* No input, or no output, can have a gradient. */
static bool is_constant(const weft_op *op)
{
    int n = op->arity < 0 ? WEFT_MAX_OPERANDS : op->arity;
    uint32_t all = (1u << n) - 1;
    return op->predicate || (op->zero_gradient & all) == all;
}

static weft_rule vjp_rule(const weft_op *op)
{
    return is_constant(op) ? WEFT_RULE_ZERO
           : op->vjp       ? WEFT_RULE_OWN
           : op->partial   ? WEFT_RULE_PARTIAL
           : op->expand    ? WEFT_RULE_EXPANSION
           : op->jvp       ? WEFT_RULE_TWICE
                           : WEFT_RULE_NONE;
}

static weft_rule jvp_rule(const weft_op *op)
{
    return is_constant(op) ? WEFT_RULE_ZERO
           : op->jvp       ? WEFT_RULE_OWN
           : op->linear    ? WEFT_RULE_LINEAR
           : op->partial   ? WEFT_RULE_PARTIAL
           : op->expand    ? WEFT_RULE_EXPANSION
           : op->vjp       ? WEFT_RULE_TWICE
                           : WEFT_RULE_NONE;
}

static weft_rule vmap_rule(const weft_op *op)
{
    return op->arity == 0                   ? WEFT_RULE_ZERO
           : op->vmap                       ? WEFT_RULE_OWN
           : op->takes_leading_axis         ? WEFT_RULE_LEADING_AXIS
           : op->family == WEFT_ELEMENTWISE ? WEFT_RULE_LEADING_AXIS
           : op->expand                     ? WEFT_RULE_EXPANSION
                                            : WEFT_RULE_ONE_BY_ONE;
}

weft_op_rules weft_op_rules_of(const weft_op *op)
{
    return (weft_op_rules){.vjp = vjp_rule(op), .jvp = jvp_rule(op), .vmap = vmap_rule(op)};
}

const char *weft_rule_name(weft_rule rule)
{
    static const char *const names[] = {
        [WEFT_RULE_NONE] = "none",
        [WEFT_RULE_ZERO] = "zero",
        [WEFT_RULE_OWN] = "own",
        [WEFT_RULE_LINEAR] = "linear",
        [WEFT_RULE_PARTIAL] = "partial",
        [WEFT_RULE_EXPANSION] = "expansion",
        [WEFT_RULE_TWICE] = "twice",
        [WEFT_RULE_LEADING_AXIS] = "leading axis",
        [WEFT_RULE_ONE_BY_ONE] = "one by one",
    };
    return (size_t)rule < sizeof names / sizeof *names ? names[rule] : "none";
}
