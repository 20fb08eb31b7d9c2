/* tests/core/test_params.c -- core/params.c: parameters by their field tables; registering ops. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/check.h"
#include "weft/op.h"
#include "weft/ops.h"

typedef struct mixture {
    bool flag; /* padding follows */
    int64_t whole;
    double real;
    weft_dtype dtype;
    weft_dims dims;
    void *pointer;
} mixture;

static const weft_field fields[] = {
    WEFT_FIELD(BOOL, mixture, flag),
    WEFT_FIELD(INT, mixture, whole),
    WEFT_FIELD(DOUBLE, mixture, real),
    WEFT_FIELD(DTYPE, mixture, dtype),
    WEFT_FIELD(DIMS, mixture, dims),
    WEFT_FIELD(POINTER, mixture, pointer),
    WEFT_FIELDS_END,
};

static bool infer_same(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static const weft_op op = {
    .name = "test_mixture",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(mixture),
    .params_fields = fields,
    .infer = infer_same,
};

/* Equal parameters in memory that was `filled` with different bytes before. */
static mixture make(int filled)
{
    mixture m;
    memset(&m, filled, sizeof m);
    m.flag = true;
    m.whole = -7;
    m.real = 0.5;
    m.dtype = WEFT_BFLOAT16;
    m.dims.n = 2;
    m.dims.at[0] = 3;
    m.dims.at[1] = -1;
    m.pointer = NULL;
    return m;
}

static void equality_and_hash_look_at_fields_only(void)
{
    mixture a = make(0), b = make(0xff);
    CHECK(weft_params_equal(&op, &a, &b));
    CHECK(weft_params_hash(&op, &a) == weft_params_hash(&op, &b));
    mixture changed[6];
    for (int i = 0; i < 6; i++) {
        changed[i] = make(0);
    }
    changed[0].flag = false;
    changed[1].whole = 7;
    changed[2].real = 0.25;
    changed[3].dtype = WEFT_FLOAT16;
    changed[4].dims.at[1] = 1;
    changed[5].pointer = &a;
    for (int i = 0; i < 6; i++) {
        CHECK(!weft_params_equal(&op, &a, &changed[i]));
        CHECK(weft_params_hash(&op, &a) != weft_params_hash(&op, &changed[i]));
    }
}

static void numbers_compare_by_their_bits(void)
{
    mixture a = make(0), b = make(0);
    a.real = b.real = (double)NAN;
    CHECK(weft_params_equal(&op, &a, &b));
    a.real = 0.0;
    b.real = -0.0;
    CHECK(!weft_params_equal(&op, &a, &b));
    CHECK(weft_params_hash(&op, &a) != weft_params_hash(&op, &b));
    a = b = make(0);
    a.dims = WEFT_ALL_AXES;
    b.dims = WEFT_SCALAR;
    CHECK(!weft_params_equal(&op, &a, &b));
}

static void printing_names_every_field_and_keeps_to_its_room(void)
{
    mixture m = make(0);
    char text[256];
    weft_params_print(&op, &m, text, sizeof text);
    CHECK_STR(text, "flag=true whole=-7 real=0.5 dtype=bfloat16 dims=(3, -1) pointer=null");
    m.dims = WEFT_ALL_AXES;
    weft_params_print(&op, &m, text, sizeof text);
    CHECK_CONTAINS(text, "dims=all");
    for (size_t room = 1; room < 40; room++) {
        memset(text, '#', sizeof text);
        weft_params_print(&op, &m, text, room);
        CHECK(strlen(text) < room);
        CHECK_EQ_INT(text[room], '#');
    }
    static const weft_op without = {.name = "test_without"};
    weft_params_print(&without, NULL, text, sizeof text);
    CHECK_STR(text, "");
    CHECK(weft_params_equal(&without, NULL, NULL));
}

static void ops_are_registered_once(void)
{
    int before = weft_op_count();
    CHECK(weft_op_find("test_mixture") == NULL);
    CHECK_OK(weft_op_register(&op));
    CHECK_EQ_INT(weft_op_count(), before + 1);
    CHECK(weft_op_find("test_mixture") == &op);
    CHECK(weft_op_at(before) == &op);
    CHECK(weft_op_at(before + 1) == NULL);
    CHECK(weft_op_at(-1) == NULL);
    CHECK_STATUS(weft_op_register(&op), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "taken");
    static const weft_op twice = {.name = "add", .family = WEFT_COMPOSITE, .infer = infer_same};
    CHECK_STATUS(weft_op_register(&twice), WEFT_INVALID);
    static const weft_op nameless = {.infer = infer_same, .family = WEFT_COMPOSITE};
    CHECK_STATUS(weft_op_register(&nameless), WEFT_INVALID);
    static const weft_op wide = {.name = "test_wide", .family = WEFT_ELEMENTWISE, .arity = 5};
    CHECK_STATUS(weft_op_register(&wide), WEFT_INVALID);
    static const weft_op many = {.name = "test_many",
                                 .family = WEFT_COMPOSITE,
                                 .n_outputs = WEFT_MAX_OUTPUTS + 1,
                                 .infer = infer_same};
    CHECK_STATUS(weft_op_register(&many), WEFT_INVALID);
    static const weft_op blind = {.name = "test_blind", .family = WEFT_CORE_RANK};
    CHECK_STATUS(weft_op_register(&blind), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "infer");
    CHECK_EQ_INT(weft_op_count(), before + 1);
}

static void an_op_without_anything_to_run_is_an_error(void)
{
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(2), WEFT_FLOAT32);
    weft_array *y = weft_apply(&op, &x, 1, NULL);
    CHECK_STATUS(weft_eval(y), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "test_mixture");
    CHECK(!weft_ok(weft_apply(&op, &x, 0, NULL)));
    weft_array *failed = weft_error_array("the first one");
    weft_array *inputs[] = {failed};
    CHECK(weft_apply(&op, inputs, 1, NULL) == failed);
    weft_scope_close(NULL);
}

CHECK_MAIN("params", CHECK_CASE(equality_and_hash_look_at_fields_only),
           CHECK_CASE(numbers_compare_by_their_bits),
           CHECK_CASE(printing_names_every_field_and_keeps_to_its_room),
           CHECK_CASE(ops_are_registered_once),
           CHECK_CASE(an_op_without_anything_to_run_is_an_error))
