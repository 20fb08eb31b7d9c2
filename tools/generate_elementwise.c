/* tools/generate_elementwise.c -- writes the CPU's elementwise kernels from the ops' formulas.
 *
 *     generate_elementwise keys > elementwise_keys.c
 *     generate_elementwise loops > elementwise_loops.c
 *
 * It is linked with the op literals and the tape parser. See backends/cpu/elementwise_kernels.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/elementwise_kernels.h"
#include "weft/op.h"

#define OP(name) extern const weft_op weft_op_##name;
#include "ops/elementwise/table.h"
#undef OP

static const weft_op *const ops[] = {
#define OP(name) &weft_op_##name,
#include "ops/elementwise/table.h"
#undef OP
};

enum { N_OPS = sizeof ops / sizeof *ops, MAX_ENTRIES = N_OPS * WEFT_CLASS_COUNT };

typedef struct type_name {
    const char *suffix, *c;
} type_name;

static const type_name types[CPU_TYPE_COUNT] = {
    [CPU_F32] = {"f32", "float"},   [CPU_F64] = {"f64", "double"},
    [CPU_I32] = {"i32", "int32_t"}, [CPU_U32] = {"u32", "uint32_t"},
    [CPU_I64] = {"i64", "int64_t"}, [CPU_U64] = {"u64", "uint64_t"},
    [CPU_B8] = {"b8", "uint8_t"},   [CPU_C64] = {"c64", "weft_complex64"},
};

static const cpu_type first_type[WEFT_CLASS_COUNT + 1] = {
    [WEFT_CLASS_REAL] = CPU_F32,    [WEFT_CLASS_INTEGER] = CPU_I32,      [WEFT_CLASS_BOOL] = CPU_B8,
    [WEFT_CLASS_COMPLEX] = CPU_C64, [WEFT_CLASS_COUNT] = CPU_TYPE_COUNT,
};

static const char *const class_names[WEFT_CLASS_COUNT] = {"real", "integer", "bool", "complex"};

typedef struct entry {
    const weft_op *op;
    bool to_bool;
    uint64_t hash;
    weft_tape tape;
} entry;

static entry entries[MAX_ENTRIES];
static int n_entries;

/* ---- Collecting ----------------------------------------------------------------------------- */

static void add_entry(const weft_op *op, weft_class klass, const char *formula)
{
    if (!formula) {
        return;
    }
    entry *e = &entries[n_entries];
    char why[256];
    if (!weft_tape_parse(formula, klass, op->arity, &e->tape, why, sizeof why)) {
        fprintf(stderr, "generate_elementwise: %s: %s\n", op->name, why);
        exit(EXIT_FAILURE);
    }
    e->op = op;
    e->to_bool = op->predicate && klass != WEFT_CLASS_BOOL;
    e->hash = cpu_tape_hash(&e->tape, e->to_bool);
    for (int i = 0; i < n_entries; i++) {
        if (entries[i].hash == e->hash) {
            return; /* the same formula again */
        }
    }
    n_entries++;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const entry *)a)->hash, y = ((const entry *)b)->hash;
    return (x > y) - (x < y);
}

static void collect(void)
{
    for (int i = 0; i < N_OPS; i++) {
        add_entry(ops[i], WEFT_CLASS_REAL, ops[i]->formula.real);
        add_entry(ops[i], WEFT_CLASS_INTEGER, ops[i]->formula.integer);
        add_entry(ops[i], WEFT_CLASS_BOOL, ops[i]->formula.boolean);
        add_entry(ops[i], WEFT_CLASS_COMPLEX, ops[i]->formula.complex_);
    }
    qsort(entries, (size_t)n_entries, sizeof *entries, by_hash);
}

/* ---- Keys ----------------------------------------------------------------------------------- */

static void print_number(double x)
{
    if (isnan(x)) {
        printf("(double)NAN");
    } else if (isinf(x)) {
        printf(x < 0 ? "-(double)INFINITY" : "(double)INFINITY");
    } else {
        printf("%a", x);
    }
}

static void print_keys(void)
{
    printf("/* Written by tools/generate_elementwise.c. */\n#include <math.h>\n\n"
           "#include \"backends/cpu/elementwise_kernels.h\"\n\n");
    for (int k = 0; k < n_entries; k++) {
        const weft_tape *t = &entries[k].tape;
        if (t->n_steps > 0) {
            printf("static const weft_tape_step steps_%d[] = {\n", k);
        }
        for (int i = 0; i < t->n_steps; i++) {
            const weft_tape_step *s = &t->steps[i];
            printf("    {%d, {%d, %d, %d}, ", s->code, s->value[0], s->value[1], s->value[2]);
            print_number(s->constant);
            printf("}, /* %s */\n", weft_tape_code_name((weft_tape_code)s->code));
        }
        if (t->n_steps > 0) {
            printf("};\n");
        }
    }
    printf("\nconst cpu_key weft__cpu_keys[] = {\n");
    for (int k = 0; k < n_entries; k++) {
        const weft_tape *t = &entries[k].tape;
        char steps[32] = "0";
        if (t->n_steps > 0) {
            snprintf(steps, sizeof steps, "steps_%d", k);
        }
        printf("    {UINT64_C(0x%llx), %d, %d, %d, %d, %s}, /* %s, %s */\n",
               (unsigned long long)entries[k].hash, (int)t->klass, entries[k].to_bool,
               t->n_operands, t->n_steps, steps, entries[k].op->name, class_names[t->klass]);
    }
    printf("};\n\nconst int weft__cpu_key_count = %d;\n", n_entries);
}

/* ---- Loops ---------------------------------------------------------------------------------- */

static void print_constant(cpu_type type, double x)
{
    if (type == CPU_F32) {
        printf(isnan(x) ? "F32_NAN" : isinf(x) ? "F32_INFINITY" : "%af", (double)(float)x);
    } else if (type == CPU_C64) {
        printf("complex_of(%af, 0)", x);
    } else if (type == CPU_F64) {
        print_number(x);
    } else {
        printf("(%s)%lld", types[type].c, (long long)x);
    }
}

static bool takes_width(int code)
{
    return code == WEFT_TAPE_SHL || code == WEFT_TAPE_SHR;
}

static void print_step(const weft_tape *t, int i, cpu_type type)
{
    const weft_tape_step *s = &t->steps[i];
    weft_tape_code code = (weft_tape_code)s->code;
    printf("        const %s v%d = ", types[type].c, t->n_operands + i);
    if (code == WEFT_TAPE_CONST) {
        print_constant(type, s->constant);
    } else if (code == WEFT_TAPE_BITS) {
        printf("(%s)bits", types[type].c);
    } else {
        printf("%s_%s(", weft_tape_code_name(code), types[type].suffix);
        for (int k = 0; k < weft_tape_arity(code); k++) {
            printf("%sv%d", k ? ", " : "", s->value[k]);
        }
        printf(takes_width(s->code) ? ", bits)" : ")");
    }
    printf(";\n");
}

static bool reads(const weft_tape *t, int operand)
{
    bool found = t->n_steps == 0 && operand == 0;
    for (int i = 0; i < t->n_steps; i++) {
        for (int k = 0; k < weft_tape_arity((weft_tape_code)t->steps[i].code); k++) {
            found |= t->steps[i].value[k] == operand;
        }
    }
    return found;
}

/* One function: the loop over the elements around the tape. */
static void print_map(const char *name, const weft_tape *t, cpu_type type, bool to_bool)
{
    const char *c = types[type].c;
    printf("static void %s(const void *const *in, void *to, int64_t n, int bits)\n{\n", name);
    for (int i = 0; i < t->n_operands; i++) {
        if (reads(t, i)) {
            printf("    const %s *in%d = in[%d];\n", c, i, i);
        }
    }
    printf("    %s *out = to;\n    (void)bits;\n    (void)in;\n", to_bool ? "uint8_t" : c);
    printf("    EACH(i, n) {\n");
    for (int i = 0; i < t->n_operands; i++) {
        if (reads(t, i)) {
            printf("        const %s v%d = in%d[i];\n", c, i, i);
        }
    }
    for (int i = 0; i < t->n_steps; i++) {
        print_step(t, i, type);
    }
    int last = t->n_steps ? t->n_operands + t->n_steps - 1 : 0;
    if (to_bool) {
        printf("        out[i] = truth_%s(v%d);\n    }\n}\n\n", types[type].suffix, last);
    } else {
        printf("        out[i] = v%d;\n    }\n}\n\n", last);
    }
}

static void print_fused(void)
{
    for (int k = 0; k < n_entries; k++) {
        const entry *e = &entries[k];
        weft_class klass = e->tape.klass;
        printf("/* %s, %s */\n", e->op->name, class_names[klass]);
        for (cpu_type type = first_type[klass]; type < first_type[klass + 1]; type++) {
            char name[64];
            snprintf(name, sizeof name, "fused_%d_%s", k, types[type].suffix);
            print_map(name, &e->tape, type, e->to_bool);
        }
    }
    printf("static cpu_map *const fused[][CPU_VARIANTS] = {\n");
    for (int k = 0; k < n_entries; k++) {
        weft_class klass = entries[k].tape.klass;
        printf("    {");
        for (cpu_type type = first_type[klass]; type < first_type[klass + 1]; type++) {
            printf("fused_%d_%s, ", k, types[type].suffix);
        }
        printf("},\n");
    }
    printf("};\n\n");
}

/* Whether formulas of the class may contain the code; the parser decides. */
static bool step_tape(weft_tape_code code, weft_class klass, weft_tape *out)
{
    static const char *const spelled[WEFT_TAPE_CODE_COUNT] = {
        [WEFT_TAPE_NEG] = "-a",      [WEFT_TAPE_NOT] = "!a",           [WEFT_TAPE_BITNOT] = "~a",
        [WEFT_TAPE_ADD] = "a + b",   [WEFT_TAPE_SUB] = "a - b",        [WEFT_TAPE_MUL] = "a * b",
        [WEFT_TAPE_DIV] = "a / b",   [WEFT_TAPE_MOD] = "a % b",        [WEFT_TAPE_LT] = "a < b",
        [WEFT_TAPE_LE] = "a <= b",   [WEFT_TAPE_EQ] = "a == b",        [WEFT_TAPE_NE] = "a != b",
        [WEFT_TAPE_AND] = "a && b",  [WEFT_TAPE_OR] = "a || b",        [WEFT_TAPE_BITAND] = "a & b",
        [WEFT_TAPE_BITOR] = "a | b", [WEFT_TAPE_BITXOR] = "a ^ b",     [WEFT_TAPE_SHL] = "a << b",
        [WEFT_TAPE_SHR] = "a >> b",  [WEFT_TAPE_SELECT] = "a ? b : c",
    };
    char formula[32], why[256];
    int arity = weft_tape_arity(code);
    const char *operands = arity == 1 ? "a" : "a, b";
    if (spelled[code]) {
        snprintf(formula, sizeof formula, "%s", spelled[code]);
    } else {
        snprintf(formula, sizeof formula, "%s(%s)", weft_tape_code_name(code), operands);
    }
    return arity > 0 && weft_tape_parse(formula, klass, arity, out, why, sizeof why);
}

static void print_steps(void)
{
    static bool present[WEFT_TAPE_CODE_COUNT][CPU_TYPE_COUNT];
    for (int code = 0; code < WEFT_TAPE_CODE_COUNT; code++) {
        for (int klass = 0; klass < WEFT_CLASS_COUNT; klass++) {
            weft_tape tape;
            if (!step_tape((weft_tape_code)code, (weft_class)klass, &tape)) {
                continue;
            }
            for (cpu_type type = first_type[klass]; type < first_type[klass + 1]; type++) {
                char name[64];
                snprintf(name, sizeof name, "step_%s_%s", weft_tape_code_name((weft_tape_code)code),
                         types[type].suffix);
                print_map(name, &tape, type, false);
                present[code][type] = true;
            }
        }
    }
    printf("static cpu_map *const steps[WEFT_TAPE_CODE_COUNT][CPU_TYPE_COUNT] = {\n");
    for (int code = 0; code < WEFT_TAPE_CODE_COUNT; code++) {
        for (int type = 0; type < CPU_TYPE_COUNT; type++) {
            if (present[code][type]) {
                printf("    [%d][%d] = step_%s_%s,\n", code, type,
                       weft_tape_code_name((weft_tape_code)code), types[type].suffix);
            }
        }
    }
    printf("};\n\n");
}

static void print_loops(void)
{
    printf("/* Written by tools/generate_elementwise.c. */\n"
           "#include \"backends/cpu/elementwise_kernels.h\"\n"
           "#include \"backends/cpu/vocabulary.h\"\n\n"
           "#define EACH(i, n) _Pragma(\"omp simd\") for (int64_t i = 0; i < (n); i++)\n\n");
    print_fused();
    print_steps();
    printf("void CPU_NAME(weft__fill_elementwise)(cpu_elementwise_table *table)\n{\n"
           "    table->fused = fused;\n    table->steps = steps;\n}\n");
}

int main(int argc, char **argv)
{
    if (argc != 2 || (strcmp(argv[1], "keys") != 0 && strcmp(argv[1], "loops") != 0)) {
        fprintf(stderr, "usage: generate_elementwise keys|loops\n");
        return EXIT_FAILURE;
    }
    collect();
    if (argv[1][0] == 'k') {
        print_keys();
    } else {
        print_loops();
    }
    return EXIT_SUCCESS;
}
