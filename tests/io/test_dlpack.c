/* tests/io/test_dlpack.c -- weft/dlpack.h: tensors exported and imported without copying. */
#include <stdlib.h>
#include <string.h>

#include "core/io/dlpack_abi.h"
#include "tests/check.h"
#include "weft/dlpack.h"
#include "weft/ops.h"

static int deleted;

static void count_deletion(struct DLManagedTensorVersioned *self)
{
    (void)self;
    deleted++;
}

static void count_deletion_unversioned(struct DLManagedTensor *self)
{
    (void)self;
    deleted++;
}

static void an_exported_array_keeps_its_memory(void)
{
    float numbers[6] = {0, 1, 2, 3, 4, 5};
    struct DLManagedTensorVersioned *t;
    weft_scope_open();
    weft_array *x = weft_from_memory(numbers, WEFT_FLOAT32, WEFT_DIMS(2, 3), NULL, NULL);
    CHECK_OK(weft_to_dlpack(weft_transpose(x, WEFT_DIMS(1, 0)), &t));
    weft_scope_close(NULL); /* the tensor holds it */
    CHECK_EQ_INT(t->major, 1);
    CHECK_EQ_INT(t->flags, DLPACK_READ_ONLY);
    CHECK(t->tensor.data == numbers && t->tensor.byte_offset == 0);
    CHECK_EQ_INT(t->tensor.ndim, 2);
    CHECK_EQ_INT(t->tensor.shape[0], 3);
    CHECK_EQ_INT(t->tensor.strides[0], 1);
    CHECK_EQ_INT(t->tensor.strides[1], 3);
    CHECK_EQ_INT(t->tensor.code, DLPACK_FLOAT);
    CHECK_EQ_INT(t->tensor.bits, 32);
    t->deleter(t);
}

static void every_dtype_is_imported_again(void)
{
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        struct DLManagedTensorVersioned *t;
        struct DLManagedTensor *u;
        weft_scope_open();
        weft_array *x = weft_astype(weft_arange(0, 5, 1, WEFT_FLOAT32), (weft_dtype)d);
        CHECK_OK(weft_to_dlpack(x, &t));
        weft_array *y = weft_from_dlpack(t);
        CHECK_EQ_INT(weft_dtype_of(y), d);
        CHECK(weft_data(y) == weft_data(x)); /* the same memory */
        CHECK_OK(weft_to_dlpack_unversioned(y, &u));
        weft_array *z = weft_from_dlpack_unversioned(u);
        CHECK(weft_data(z) == weft_data(x));
        weft_scope_close(NULL);
    }
}

static void strides_are_imported(void)
{
    double numbers[12];
    for (int i = 0; i < 12; i++) {
        numbers[i] = i;
    }
    int64_t shape[] = {2, 3}, strides[] = {6, -2};
    struct DLManagedTensorVersioned t = {
        .major = 1,
        .deleter = count_deletion,
        .tensor = {.data = numbers,
                   .byte_offset = 4 * sizeof(double),
                   .device_type = DLPACK_CPU,
                   .ndim = 2,
                   .code = DLPACK_FLOAT,
                   .bits = 64,
                   .lanes = 1,
                   .shape = shape,
                   .strides = strides},
    };
    double got[6];
    const double want[6] = {4, 2, 0, 10, 8, 6};
    deleted = 0;
    weft_scope_open();
    weft_array *x = weft_from_dlpack(&t);
    CHECK_OK(weft_read(weft_add(x, x), WEFT_FLOAT64, got, 6));
    for (int i = 0; i < 6; i++) {
        CHECK_CLOSE(got[i], 2 * want[i], 0);
    }
    weft_scope_close(NULL);
    CHECK_EQ_INT(deleted, 1);
    weft_scope_open(); /* misaligned: copied, and released at once */
    t.tensor.data = (char *)numbers + 4;
    t.tensor.byte_offset = 0;
    t.tensor.strides = NULL;
    shape[0] = 1;
    x = weft_from_dlpack(&t);
    CHECK_EQ_INT(deleted, 2);
    CHECK(weft_ok(x));
    weft_scope_close(NULL);
    CHECK_EQ_INT(deleted, 2);
}

/* A changed tensor is refused with a message, and its deleter called. */
static void refuse(struct DLManagedTensor t, const char *why)
{
    deleted = 0;
    weft_scope_open();
    weft_array *a = weft_from_dlpack_unversioned(&t);
    CHECK(!weft_ok(a));
    CHECK_CONTAINS(weft_error(a), why);
    weft_scope_close(NULL);
    CHECK_EQ_INT(deleted, 1);
}

static void tensors_that_do_not_fit_are_refused(void)
{
    float numbers[4] = {0};
    int64_t shape[] = {4}, huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1};
    const struct DLManagedTensor good = {
        .deleter = count_deletion_unversioned,
        .tensor = {.data = numbers,
                   .device_type = DLPACK_CPU,
                   .ndim = 1,
                   .code = DLPACK_FLOAT,
                   .bits = 32,
                   .lanes = 1,
                   .shape = shape},
    };
    struct DLManagedTensor t = good;
    t.tensor.device_type = 2;
    refuse(t, "device type 2");
    t = good;
    t.tensor.bits = 8;
    refuse(t, "unsupported type: code 2, 8 bits");
    t = good;
    t.tensor.lanes = 4;
    refuse(t, "4 lanes");
    t = good;
    t.tensor.ndim = 17;
    refuse(t, "got 17");
    t = good;
    t.tensor.shape = negative;
    refuse(t, "got -1");
    t = good;
    t.tensor.shape = huge;
    t.tensor.ndim = 2;
    refuse(t, "dim 1");
    t = good;
    t.tensor.data = NULL;
    refuse(t, "NULL");
    struct DLManagedTensorVersioned later = {.major = 2, .deleter = count_deletion};
    deleted = 0;
    weft_scope_open();
    CHECK_CONTAINS(weft_error(weft_from_dlpack(&later)), "version 2");
    weft_scope_close(NULL);
    CHECK_EQ_INT(deleted, 1);
}

CHECK_MAIN("dlpack", CHECK_CASE(an_exported_array_keeps_its_memory),
           CHECK_CASE(every_dtype_is_imported_again), CHECK_CASE(strides_are_imported),
           CHECK_CASE(tensors_that_do_not_fit_are_refused))
