/* weft/backend.h -- the backend interface: a table of buffer functions and kernel rows.
 *
 * Backends are outside the layers and include only include/weft/. A program may register its own.
 */
#ifndef WEFT_BACKEND_H
#define WEFT_BACKEND_H

#include "weft/op.h"
#include "weft/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which layouts of its inputs a kernel takes. The evaluator copies what does not fit. Outputs are
 * always row-major. */
typedef enum weft_layout {
    WEFT_CONTIGUOUS, /* row-major without gaps */
    WEFT_LAST_DIM,   /* the last axis has stride 1 (or length 1); the others are free */
    WEFT_STRIDED     /* any strides, zero and negative too */
} weft_layout;

/* An elementwise computation that a kernel does as it reads, instead of finding its result in
 * memory. */
typedef struct weft_call_formula {
    const weft_tape *tape; /* of the real class, over the call's inputs, with its parts; the last
                              one's result is rounded to x.dtype, as all others are to theirs */
    weft_tensor x;         /* what it gives: row-major, without data; the inputs have its shape */
} weft_call_formula;

/* An op that a kernel applies to its own result, which is then not stored. in[] of the call are the
 * `n_inputs` operands of the call's op; with n_results 2 those of another one with the same op,
 * parameters, first operand and dtype of the result; and then the other operands of `op`. out[0] is
 * the result of `op`. */
typedef struct weft_call_epilogue {
    const weft_op *op;
    const void *params;
    int n_inputs;   /* of the call's op */
    int n_results;  /* 1 or 2 */
    int n_operands; /* of `op` */
    /* The operands of `op`: 0 and more: in[i]; -1: the result, -2: that of the other. */
    int operands[WEFT_MAX_OPERANDS];
    weft_tensor result; /* of the call's op alone: row-major, without data */
} weft_call_epilogue;

/* An op that a kernel applies to its call's first operand, instead of finding the result in memory.
 * in[0] of the call is the first operand of that op, and so is the first operand of the other
 * result of an epilogue; it has the dtype and shape of the op's result. The op's further operands
 * are the last n_inputs - 1 of in[]. */
typedef struct weft_call_prologue {
    const weft_op *op;
    const void *params;
    int n_inputs; /* of `op` */
} weft_call_prologue;

/* One kernel for one op. Rows of an op are tried in order, best first; a row fits when its
 * signature does and `fits` (NULL: always) says so. */
typedef struct weft_kernel_row {
    const char *op;
    /* Dtypes of the operands, inputs first then outputs, as letters: f float32, d float64,
     * h float16, b bfloat16, i int32, l int64, u uint32, U uint64, ? bool, c complex64; F any real
     * float, I any integer, * anything. The last letter repeats for further operands. NULL: any. */
    const char *signature;
    weft_layout layout;
    /* Per output, bit i: it may share memory with input i (same size and dtype, row-major). The
     * kernel then sees the same address twice. */
    uint32_t in_place[WEFT_MAX_OUTPUTS];
    uint32_t takes_encoded;                      /* bit i: operand i may be encoded */
    bool (*fits)(const weft_call *call);         /* sees tensors without data */
    int64_t (*workspace)(const weft_call *call); /* bytes; NULL: none */
    weft_kernel *kernel;
    /* Of an op with one input, whose layout is WEFT_STRIDED: whether the kernel takes this call
     * (tensors without data) with call->formula for the input too; NULL: it never does. The result
     * must have the bits that it has when the input is computed first. */
    bool (*takes_formula)(const weft_call *call);
    /* Of an op with one output: whether the kernel takes this call (tensors without data), which
     * has an epilogue; NULL: it never does. The result must have the bits that it has when the
     * call's op is computed and stored first. The output may have the memory of one of the
     * epilogue's other operands, which are elements of an elementwise op or what that op's first
     * row names in in_place. The layout is that of all operands; `fits` and `takes_encoded` are
     * asked about the call's op alone. */
    bool (*takes_epilogue)(const weft_call *call);
    /* Whether the kernel takes this call (tensors without data), which has a prologue, and an
     * epilogue that the kernel takes, or none; NULL: it never takes a prologue. The result must
     * have the bits that it has when the first operand is computed and stored first. Every kernel
     * that reads such an operand computes it again. Otherwise as for epilogues. */
    bool (*takes_prologue)(const weft_call *call);
    /* The kernel fails, if it does, before it writes anything: outputs and workspace are as they
     * were. Of a kernel without this promise that fails, the outputs count as overwritten. */
    bool checks_first;
} weft_kernel_row;

/* How often an op ran, and for how long. */
typedef struct weft_op_time {
    const char *op, *variant; /* weft_kernel_variant */
    int64_t calls, nanoseconds;
} weft_op_time;

/* The variant of the kernel that the calling thread runs for a profiled device: the encoding of its
 * weights ("q8_0") or the dtype of its input ("bfloat16"); "" outside such kernels. The text lasts
 * as long as the process. */
WEFT_API const char *weft_kernel_variant(void);

/* For a backend that compiles a kernel's code when it is first needed. In one of the backend's own
 * kernels: calls the kernel again, and those of the same device that follow in the plan: the
 * backend's rows (none that were added), `elementwise` and `copy`. Meanwhile the backend only notes
 * what they would need. Their failures are ignored. Nothing is called outside of evaluations, and
 * the second time in a plan. */
WEFT_API void weft_dry_run_kernels(const weft_call *call) WEFT_NONNULL(1);

/* A number of a backend's own, as in "submissions". */
typedef struct weft_counter {
    const char *name;
    int64_t value;
} weft_counter;

typedef struct weft_backend {
    const char *name;
    int (*count)(void); /* devices present */
    /* Opens device `index`; *state is handed to everything below. */
    weft_status (*open)(int index, void **state);
    void (*close)(void *state);
    /* Called once after `open`, before anything else uses the device, which kernels may already run
     * on: whether it computes correctly. After a failure it is closed and cannot be used. It must
     * not look for devices. NULL: nothing to check. */
    weft_status (*check)(weft_device *device);
    /* The hardware and what is used of it, in words that outlive the device; NULL: nothing to say.
     */
    const char *(*describe)(void *state);
    /* Bytes of memory for arrays; NULL: unknown. */
    int64_t (*memory)(void *state);
    /* weft_device_flushes_subnormals; NULL: it does not. */
    bool (*flushes_subnormals)(void *state);
    /* weft_device_matrix_dtype; NULL: float32. */
    weft_dtype (*matrix_dtype)(void *state);

    /* Called from any thread, at the same time as each other and as kernels run.
     * Buffers: at least 64-byte aligned. `host` receives the address of host-readable memory, or
     * NULL. NULL result: no memory. */
    void *(*allocate)(void *state, int64_t bytes, void **host);
    void (*release)(void *state, void *buffer);
    /* Copies bytes between host memory and a buffer, after all submitted work. The copy is finished
     * when the call returns. */
    weft_status (*write)(void *state, void *buffer, int64_t offset, const void *from,
                         int64_t bytes);
    weft_status (*read)(void *state, void *buffer, int64_t offset, void *to, int64_t bytes);
    /* The same as `write`, for weights that are copied for each use and for what comes from another
     * device: the copy runs beside kernels. `from` stays as it is until the device was waited for
     * if it is pinned or a file's; other memory may be freed when this returns. NULL: write. */
    weft_status (*upload)(void *state, void *buffer, int64_t offset, const void *from,
                          int64_t bytes);
    /* Host memory, 64-byte aligned, from which `upload` copies fastest; NULL result: no memory.
     * Both NULL: any other memory is as good. */
    void *(*pin)(void *state, int64_t bytes);
    void (*unpin)(void *state, void *memory, int64_t bytes);
    /* Whether kernels can use host memory; otherwise arrays over host memory are copied. */
    bool host_memory;

    const weft_kernel_row *rows;
    int n_rows;

    /* Any elementwise op from its tape: inputs strided, `out` row-major. NULL: reference kernels.
     * The tape's class is the class of the computation; dtypes are converted at load and store. */
    weft_status (*elementwise)(const weft_call *call, const weft_tape *tape);
    /* Whether `elementwise` supports the call (tensors without data); NULL: always. Otherwise the
     * reference kernel runs. */
    bool (*elementwise_fits)(const weft_call *call, const weft_tape *tape);
    /* The most operands of merged tapes that `elementwise` supports, at most
     * WEFT_TAPE_MAX_OPERANDS; 0: do not merge ops. Merged tapes have the real class, contain
     * WEFT_TAPE_ROUND16 and WEFT_TAPE_ROUNDB, and the call's op is the last of the merged ones. */
    int fuses;
    /* Copies in[0] (strided) to out[0] (row-major, same dtype). Where copy_fits, which sees tensors
     * without data, returns false, the host copies. copy_fits NULL: always true. */
    weft_kernel *copy;
    bool (*copy_fits)(const weft_call *call);

    /* Runs queued work. Kernels of a device run in the order they were submitted. A backend that
     * leaves these NULL runs each kernel before its call returns, and its kernels are called from
     * several threads at a time; those of a backend with `wait` are not. */
    weft_status (*flush)(void *state);
    weft_status (*wait)(void *state);

    /* For plans that are queued without waiting in between; both NULL: each plan is waited for.
     * `mark` submits queued work and returns a number for its end; `wait_until` waits for that end
     * and fails as `wait`. Another thread may queue work meanwhile. */
    weft_status (*mark)(void *state, uint64_t *point);
    weft_status (*wait_until)(void *state, uint64_t point);

    /* Measuring how long the device works for each op, where kernels return before they are done
     * (NULL: the evaluator measures the time). `profile` also discards earlier measurements. */
    void (*profile)(void *state, bool on);
    int (*op_times)(void *state, weft_op_time *out, int max);
    /* Further counters while profiling, at most `max`; may be NULL. */
    int (*counters)(void *state, weft_counter *out, int max);
} weft_backend;

/* Registers a backend, whose devices weft_device_get("name[:index]") then finds. The literal must
 * not be freed. WEFT_INVALID for an incomplete literal and for a name that is taken. */
WEFT_NODISCARD WEFT_API weft_status weft_backend_register(const weft_backend *backend)
    WEFT_NONNULL(1);

/* Adds n rows in front of those of an existing backend such as "cpu", also for open devices.
 * Compiled functions keep the kernels that they were traced with. The rows must not be freed.
 * WEFT_DEVICE for an unknown backend; WEFT_INVALID for a row without an op or a kernel. */
WEFT_NODISCARD WEFT_API weft_status weft_backend_add_rows(const char *backend,
                                                          const weft_kernel_row *rows, int n);

/* The state that the backend's `open` returned, owned by the device. */
WEFT_API void *weft_device_state(const weft_device *device) WEFT_NONNULL(1);

/* How often nodes of a device ran: by a row, by their expansion, by the generic elementwise
 * kernel, or by the reference kernel on the CPU. */
typedef struct weft_counts {
    int64_t rows, expansions, elementwise, references, copies, views;
    int64_t fused;       /* became part of another node's elementwise kernel */
    int64_t transfers;   /* came from another device */
    int64_t host_copies; /* of the copies: by the CPU, where the backend has no kernel for them */
} weft_counts;
WEFT_API weft_counts weft_device_counts(const weft_device *device) WEFT_NONNULL(1);
WEFT_API void weft_device_reset_counts(weft_device *device) WEFT_NONNULL(1);

/* Switches the measurement of time per op on or off. Switching it on discards earlier results. It
 * costs nothing while it is off. Fails if the device cannot finish its queued work. */
WEFT_NODISCARD WEFT_API weft_status weft_device_profile(weft_device *device, bool on);

/* Call statistics of one op. */
typedef struct weft_op_report {
    const char *op;
    weft_counts ran;
    int64_t calls; /* kernels that ran; views do not count */
    /* Time of the device; in a reference kernel or a transfer, of the host. */
    int64_t nanoseconds;
} weft_op_report;

/* Kernels of one op on one variant. */
typedef struct weft_kernel_report {
    const char *op, *variant; /* weft_kernel_variant */
    int64_t calls;
    int64_t nanoseconds; /* as in weft_op_report */
    weft_work work;      /* total of the calls */
} weft_kernel_report;

/* Totals in nanoseconds. Concurrent work counts in full. */
typedef struct weft_totals {
    int64_t wall;     /* since profiling was switched on */
    int64_t planning; /* the host: evaluations whose first array is the device's */
    int64_t running;  /* the host: in kernels, or recording them for the device */
    int64_t waiting;  /* the host: for the device, in evaluations */
    int64_t busy;     /* the device */
} weft_totals;

/* Writes reports of at most `max` ops, those with the most time first, and returns their number: 0
 * while profiling is off. totals may be NULL. */
WEFT_API int weft_device_report(weft_device *device, weft_op_report *out, int max,
                                weft_totals *totals);

/* Writes at most `max` kernels, longest first, and returns their number. */
WEFT_API int weft_device_kernels(weft_device *device, weft_kernel_report *out, int max)
    WEFT_NONNULL(1);

/* Writes at most `max` counters of the backend since profiling was switched on and returns their
 * number. */
WEFT_API int weft_device_counters(const weft_device *device, weft_counter *out, int max)
    WEFT_NONNULL(1);

/* The tape of an elementwise op for the class of `dtype`; NULL when the op has no such formula. */
WEFT_API const weft_tape *weft_op_tape(const weft_op *op, weft_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
