/* weft/op.h -- the definition of an op: one struct literal.
 *
 * Weft's own ops (ops/) and users' ops are made the same way. An op states what it is; gradients,
 * kernels for plain elementwise formulas, tests, printing and hashing follow from the literal.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEFT_MAX_OPERANDS = 8, /* inputs of an op whose arity is fixed */
    WEFT_MAX_OUTPUTS = 16, /* outputs of an op */
    WEFT_MAX_CASES = 12
};

typedef struct weft_op weft_op;

/* ---- Encodings: how elements are stored ----------------------------------------------------- */

/* Formulas of encodings, with the parameters in weft_encoding. */
typedef enum weft_encoding_kind {
    WEFT_ENCODING_OTHER = 0, /* known by its decode function alone */
    WEFT_ENCODING_AFFINE,    /* scale * code + bias */
    WEFT_ENCODING_MXFP4,     /* 2^(scale - 127) * E2M1 */
    WEFT_ENCODING_MXFP8,     /* 2^(scale - 127) * E4M3 */
    WEFT_ENCODING_NVFP4,     /* E4M3 scale * E2M1 */
    /* The block types of GGUF files, in ggml's layout. */
    WEFT_ENCODING_Q4_0,
    WEFT_ENCODING_Q4_1,
    WEFT_ENCODING_Q5_0,
    WEFT_ENCODING_Q5_1,
    WEFT_ENCODING_Q8_0,
    WEFT_ENCODING_Q2_K,
    WEFT_ENCODING_Q3_K,
    WEFT_ENCODING_Q4_K,
    WEFT_ENCODING_Q5_K,
    WEFT_ENCODING_Q6_K,
    WEFT_ENCODING_IQ4_NL,
    WEFT_ENCODING_IQ4_XS,
    WEFT_ENCODING_GGUF_MXFP4
} weft_encoding_kind;

/* Whether a block of the kind is scale, bias and codes one after another. */
static inline bool weft_encoding_has_parts(weft_encoding_kind kind)
{
    return kind >= WEFT_ENCODING_AFFINE && kind <= WEFT_ENCODING_NVFP4;
}

/* How elements are stored; shape and dtype are logical. NULL means dense. Encoded arrays have no
 * strides: rows are consecutive, and a row consists of independent blocks. */
typedef struct weft_encoding weft_encoding;
struct weft_encoding {
    const char *name;
    int64_t block;       /* elements of a block along the last axis, at most WEFT_MAX_BLOCK */
    int64_t block_bytes; /* bytes of a block */
    weft_encoding_kind kind;
    /* For kinds with parts: a block is the scale, the bias if the kind has one, and `block` codes
     * of `bits` bits. Element i is in bits [i * bits, (i + 1) * bits), counted from the lowest bit
     * of the first byte. */
    int bits;
    weft_dtype scale; /* affine: dtype of scale and bias */
    /* Decodes `count` elements (a multiple of block) of one row from `blocks` to float32. */
    void (*decode)(const weft_encoding *e, const void *blocks, int64_t count, float *out);
    /* Encodes `count` elements; NULL: arrays of this encoding come from files only. */
    void (*encode)(const weft_encoding *e, const float *in, int64_t count, void *blocks);
};

enum { WEFT_MAX_BLOCK = 256 };

/* The bytes of `elements` elements, a multiple of the block. */
WEFT_API int64_t weft_encoding_bytes(const weft_encoding *e, int64_t elements) WEFT_NONNULL(1);

/* How an array's elements are stored; NULL: dense. */
WEFT_API const weft_encoding *weft_encoding_of(const weft_array *a);

/* The dtype, shape and encoding of an output. */
typedef struct weft_spec {
    weft_dtype dtype;
    weft_dims shape;
    const weft_encoding *encoding;
} weft_spec;

/* ---- Parameters ----------------------------------------------------------------------------- */

/* A field of an op's parameter struct. Equality, hashing, printing and export walk the table. Axes
 * count from the end (-1 is the last). */
typedef enum weft_field_type {
    WEFT_FIELD_END = 0, /* closes the table */
    WEFT_FIELD_INT,     /* int64_t */
    WEFT_FIELD_BOOL,    /* bool */
    WEFT_FIELD_DOUBLE,  /* double */
    WEFT_FIELD_DTYPE,   /* weft_dtype */
    WEFT_FIELD_DIMS,    /* weft_dims */
    WEFT_FIELD_POINTER  /* void *, compared by address; such a node cannot be exported */
} weft_field_type;

typedef struct weft_field {
    const char *name;
    weft_field_type type;
    size_t offset;
} weft_field;

#define WEFT_FIELD(type, params, member)                                                           \
    {                                                                                              \
#member, WEFT_FIELD_##type, offsetof(params, member)                                       \
    }
#define WEFT_FIELDS_END                                                                            \
    {                                                                                              \
        NULL, WEFT_FIELD_END, 0                                                                    \
    }

/* ---- Reading a node, for infer, vjp and expand ---------------------------------------------- */

/* An array is an output of a node. The first of several outputs also represents the node:
 * weft_node_n_outputs gives their number (1 for every other array), and weft_node_spec the spec of
 * each. The spec of an input is weft_node_spec(weft_node_input(node, i), 0), whichever output it
 * is. */
WEFT_API const weft_op *weft_node_op(const weft_array *node); /* NULL once it needs no computing */
WEFT_API const void *weft_node_params(const weft_array *node);
WEFT_API int weft_node_n_inputs(const weft_array *node);
WEFT_API weft_array *weft_node_input(const weft_array *node, int i);
WEFT_API int weft_node_n_outputs(const weft_array *node);
WEFT_API const weft_spec *weft_node_spec(const weft_array *node, int output);

/* ---- Tensors: an evaluated operand as a kernel sees it -------------------------------------- */

typedef struct weft_tensor {
    weft_dtype dtype;
    const weft_encoding *encoding;
    weft_dims shape;
    int64_t strides[WEFT_MAX_DIMS]; /* in elements; 0 along a broadcast axis; may be negative */
    void *data;                     /* host address of element 0 (host backends), else NULL */
    void *buffer;                   /* the backend's own buffer object */
    int64_t offset;                 /* byte offset of element 0 in the buffer */
} weft_tensor;

/* The number of elements. */
WEFT_API int64_t weft_tensor_size(const weft_tensor *t) WEFT_NONNULL(1);
WEFT_API bool weft_tensor_is_contiguous(const weft_tensor *t)
    WEFT_NONNULL(1); /* row-major without gaps */

/* One element by row-major index, converted; for reference kernels. Any real dtype through double
 * (integers of 64 bits through weft_tensor_get_int when they must be exact). */
WEFT_API double weft_tensor_get(const weft_tensor *t, int64_t index) WEFT_NONNULL(1);
WEFT_API int64_t weft_tensor_get_int(const weft_tensor *t, int64_t index) WEFT_NONNULL(1);
WEFT_API void weft_tensor_set(const weft_tensor *t, int64_t index, double value) WEFT_NONNULL(1);
WEFT_API void weft_tensor_set_int(const weft_tensor *t, int64_t index, int64_t value)
    WEFT_NONNULL(1);
/* Element offset (not bytes) of the row-major index, by the strides. */
WEFT_API int64_t weft_tensor_offset(const weft_tensor *t, int64_t index) WEFT_NONNULL(1);

/* What a kernel is called with. in[] and out[] are complete; the workspace has the size that the
 * row asked for (64-byte aligned, contents undefined): its host address, or NULL where the host
 * does not see it, and the backend's own buffer object. */
struct weft_call_formula;  /* weft/backend.h */
struct weft_call_epilogue; /* weft/backend.h */
struct weft_call_prologue; /* weft/backend.h */
typedef struct weft_call {
    const weft_op *op;
    const void *params;
    int n_inputs, n_outputs;
    const weft_tensor *in;
    const weft_tensor *out;
    void *workspace;
    void *workspace_buffer;
    weft_device *device;
    /* Instead of the op's one input, for rows that take that; in[] are then the formula's operands.
     * NULL: in[] are the op's inputs. */
    const struct weft_call_formula *formula;
    /* An op to apply to the result before it is stored, for rows that take that; in[] and out[] are
     * then as it says. NULL: none. */
    const struct weft_call_epilogue *epilogue;
    /* An op to apply to the first operand before it is read, for rows that take that; in[] are then
     * as it says. NULL: none. */
    const struct weft_call_prologue *prologue;
} weft_call;

/* The work of a call. A multiplication and an addition count as two operations. */
typedef struct weft_work {
    double flops; /* floating-point operations */
    double bytes; /* read and written at least, each operand once */
} weft_work;

/* Computes the outputs. A failure (an index out of range, say) is reported with weft_fail. */
typedef weft_status weft_kernel(const weft_call *call);

/* ---- The op --------------------------------------------------------------------------------- */

typedef enum weft_family {
    WEFT_ELEMENTWISE, /* one scalar formula; inputs of equal shape */
    WEFT_CORE_RANK,   /* works on trailing axes; leading axes are a batch */
    WEFT_STRUCTURAL,  /* moves elements, computes nothing */
    WEFT_COMPOSITE    /* defined by expand; may have a fast kernel and its own vjp */
} weft_family;

/* Why an infer function refuses. `return weft_because(why, "...")` returns false. */
typedef struct weft_why {
    char text[512];
} weft_why;
WEFT_API bool weft_because(weft_why *why, const char *format, ...) WEFT_NONNULL(1)
    WEFT_PRINTF(2, 3);

/* The formula of an elementwise op per compute class, over the operands a, b, c, d and the closed
 * vocabulary of tape.h. NULL: the op has no meaning in that class (an infer error). */
typedef struct weft_formula {
    const char *real;
    const char *integer;
    const char *boolean;
    const char *complex_;
} weft_formula;

/* A test case of an op: shapes and dtypes of its inputs and its parameters. Inputs are drawn from
 * [lo, hi]; an input with `index_below` > 0 is int32 in [0, index_below). A shape with n = -1 ends
 * the inputs. */
typedef struct weft_case_input {
    weft_dims shape;
    double lo, hi;       /* both 0: the op's domain */
    int64_t index_below; /* > 0: int32 indices */
    bool boolean;        /* a mask */
    bool bytes;          /* uint8 of any value */
    bool fixed_float32;  /* float32 whatever the dtype under test */
    bool key;            /* a random key: uint32 words */
    bool dominant;       /* square: 4 N is added to the diagonal: well-conditioned, and positive
                          * definite if one triangle is taken for both */
} weft_case_input;

typedef struct weft_case {
    const char *name;
    int n_inputs;
    weft_case_input in[WEFT_MAX_OPERANDS];
    const void *params; /* NULL: all zero */
} weft_case;

/* The number for which an op of two inputs gives back the other one, bit for bit. */
typedef struct weft_neutral {
    bool exists;
    double value; /* -0 and 0 are different numbers, but for integers */
} weft_neutral;

struct weft_op {
    const char *name;
    weft_family family;
    int arity;     /* number of inputs; -1: any */
    int n_outputs; /* 0 means 1; -n: up to n, infer marks those it does not make with ndim -1 */
    size_t params_size;
    const weft_field *params_fields;

    /* Checks the inputs and parameters, and fills the outputs' specs. The node has its inputs and
     * parameters, not yet its specs. NULL for elementwise ops: equal shapes and dtypes in, the
     * same out (bool out when `predicate`). */
    bool (*infer)(const weft_array *node, weft_spec *out, weft_why *why);

    /* Elementwise ops. */
    weft_formula formula;
    bool predicate;                                  /* the output is bool */
    weft_array *(*partial)(weft_array *node, int i); /* d out / d in_i; NULL result: 1 */

    /* Gradient of every wanted input: grads[i] is NULL on entry and may stay NULL for zero. cts
     * holds the outputs' cotangents, NULL for zero. Elementwise ops may use `partial` instead,
     * composite ones `expand`. */
    void (*vjp)(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads);
    uint32_t zero_gradient; /* bit i: input i never gets a gradient, by definition */
    uint32_t takes_encoded; /* bit i: input i may be encoded; elsewhere that is an error */

    /* Tangents of the outputs from those of the inputs (NULL: zero); out[o] is NULL on entry and
     * may stay NULL for zero. Few ops need one: without it `linear`, `partial`, `expand` and `vjp`
     * serve, in that order (core/transforms/push_forward.c). */
    void (*jvp)(weft_array *node, weft_array *const *tangents, weft_array **out);
    /* The outputs are linear in the differentiable inputs together: their tangents are the op on
     * the tangents, with zeros for missing ones. */
    bool linear;

    /* The outputs for a batch: in[i] has the batch as axis 0, of length `size`, where batched[i];
     * at least one has. False: no rule for this case, so examples are computed one by one. Without
     * a rule `takes_leading_axis`, then `expand`, then one by one is used
     * (core/transforms/batch.c). Elementwise ops need none. */
    bool (*vmap)(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                 weft_array **out);
    /* With one more leading axis on all inputs, the same parameters give outputs with that axis:
     * parameter axes count from the end. */
    bool takes_leading_axis;

    /* The same mathematics in smaller ops: outs[] of the node's specs. */
    void (*expand)(weft_array *node, weft_array **outs);

    /* What a compiled function may leave out because the result is the same, bit for bit. */
    bool commutative;     /* the two inputs may be exchanged */
    weft_neutral neutral; /* as the second input, or as either where the op is commutative */
    /* Whether output 0 is input 0 when both have the same spec and device. NULL: never. */
    bool (*is_identity)(const void *params, int n_inputs);
    /* Output i has the elements of input i: the op matters to transforms only, or moves its input
     * to a device. Exports, and compiled functions on one device, replace the outputs by the
     * inputs, unless `keeps_order` is set too. */
    bool passes_through;
    bool keeps_order;

    /* Kernels that read a few rows of the result may compute them again instead
     * (weft_kernel_row.takes_prologue). The result has the shape of the first input. */
    bool may_repeat;

    /* Gradients of nodes that read a large result compute it again, so that it need not stay in
     * memory. For cheap ops whose own gradient reads their inputs (at most 4), and not the result.
     */
    bool rematerialize;

    /* A structural op whose output can be a view: fills shape, strides and offset of *out (preset
     * to *in) and returns true. False: elements must be moved. */
    bool (*view)(const weft_array *node, const weft_tensor *in, weft_tensor *out);

    /* a + b as one node, where a is a result of this op, b of any, and both have one spec; NULL: as
     * an `add`. Gradients are summed by it, and may then be rounded fewer times. */
    weft_array *(*add)(weft_array *a, weft_array *b);

    /* Counts the work of a call, for profiles. On entry *work has 0 operations and the bytes of all
     * operands. Inputs have data only if the host already has their elements. NULL: the work on
     * entry is right; the steps of elementwise formulas are counted without this function. */
    void (*work)(const weft_call *call, weft_work *work);

    /* The definition of the values, for any dtypes, strides and sizes that infer accepts. NULL for
     * elementwise ops (the formula defines them) and for composite ones (expand does). */
    weft_kernel *reference;

    double domain[2]; /* where tests sample; both 0: [-2, 2] */
    const weft_case *cases;
    int n_cases;
    uint32_t no_test_dtypes; /* bit per dtype that infer refuses or that has no meaning */
    double tolerance;        /* relative; 0: the default of the dtype */
};

/* ---- Building nodes ------------------------------------------------------------------------- */

/* The only constructor of nodes: a temporary. If an input has failed, that input is returned; if
 * infer refuses, an error array. `params` (params_size bytes) is copied; NULL means all zero. With
 * several outputs the result is the first one, which represents the node: weft_pick gives each. */
WEFT_API weft_array *weft_apply(const weft_op *op, weft_array *const *inputs, int n,
                                const void *params);
/* Output `output` of the node that `node` represents, with the shape and dtype of its spec. It
 * belongs to the innermost scope unless a scope owns it already. Pick outputs before the node is
 * evaluated: an output that is not picked, used or kept by then is not stored, and picking it later
 * is an error. For any other array, output 0 is the array itself. */
WEFT_API weft_array *weft_pick(weft_array *node, int output);

/* Elementwise convenience: promotes dtypes, broadcasts shapes, then applies. */
WEFT_API weft_array *weft_apply_elementwise(const weft_op *op, weft_array *const *inputs, int n)
    WEFT_NONNULL(1);

/* Adds an op to the table, so that printing, tests and rows of backends find it. The literal must
 * not be freed while the process uses it. WEFT_INVALID for an incomplete literal and for a name
 * that exists. */
WEFT_NODISCARD WEFT_API weft_status weft_op_register(const weft_op *op) WEFT_NONNULL(1);

/* The table: Weft's ops and then the registered ones. weft_op_find returns NULL when absent. */
WEFT_API int weft_op_count(void);
WEFT_API const weft_op *weft_op_at(int i);
WEFT_API const weft_op *weft_op_find(const char *name);

/* Parameters by their field table. */
WEFT_API bool weft_params_equal(const weft_op *op, const void *a, const void *b) WEFT_NONNULL(1);
WEFT_API uint64_t weft_params_hash(const weft_op *op, const void *params) WEFT_NONNULL(1);
/* "axis=-1 keepdims=true" into `out` (always terminated). */
WEFT_API void weft_params_print(const weft_op *op, const void *params, char *out, size_t size)
    WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
