/* weft/nn.h -- modules: trees of named arrays with a forward function.
 *
 * A module is a struct whose first member is `weft_module module`. Setting a field and registering
 * it is one macro, and the field's name is the checkpoint's name:
 *
 *     typedef struct mlp {
 *         weft_module module;
 *         weft_module *up_proj, *down_proj;
 *     } mlp;
 *
 *     static weft_array *mlp_forward(weft_module *self, weft_array *x)
 *     {
 *         mlp *m = (mlp *)self;
 *         return weft_nn_call(m->down_proj, weft_silu(weft_nn_call(m->up_proj, x)));
 *     }
 *     static const weft_module_type mlp_type = {.name = "mlp", .forward = mlp_forward};
 *
 *     weft_module *mlp_new(int64_t E, int64_t F)
 *     {
 *         mlp *m = weft_nn_new(mlp, &mlp_type);
 *         if (m == NULL)
 *             return NULL;
 *         weft_nn_child(m, up_proj, weft_nn_linear_new(E, F, false));
 *         weft_nn_child(m, down_proj, weft_nn_linear_new(F, E, false));
 *         return weft_nn_finish(m);
 *     }
 *
 * Constructors need no checks between their first and last line: a NULL child or array marks the
 * module as failed; weft_nn_finish then frees it and returns NULL, with a message.
 *
 * A module owns its arrays and children. Its arrays may be lazy: a parameter that a checkpoint
 * replaces is never computed. A module is used by one thread at a time.
 */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include "weft/io.h"
#include "weft/ops.h"
#include "weft/random.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_NN_PATH = 512 }; /* bytes of the longest path, its 0 included */

typedef struct weft_module weft_module;

typedef struct weft_module_type {
    const char *name;
    /* y = f(x), for weft_nn_call; NULL for modules with more arguments, which have a typed function
     * instead. */
    weft_array *(*forward)(weft_module *self, weft_array *x);
    /* Frees what the slots do not own; may be NULL. */
    void (*destroy)(weft_module *self);
    /* Writes a description such as "in=64 out=32" for weft_nn_describe; may be NULL. */
    void (*describe)(const weft_module *self, char *out, size_t size);
    bool takes_encoded; /* its parameter "weight" may be in an encoding (weft/quantize.h) */
} weft_module_type;

typedef enum weft_slot_kind {
    WEFT_SLOT_PARAMETER, /* in checkpoints, visited */
    WEFT_SLOT_STATISTIC, /* the same, but computed by the module: frozen for good */
    WEFT_SLOT_BUFFER,    /* owned, but neither in checkpoints nor visited */
    WEFT_SLOT_TIED       /* another module's parameter (weft_nn_tie): not visited */
} weft_slot_kind;

typedef struct weft_slot {
    const char *name;     /* outlives the module: a literal */
    weft_array **address; /* the field */
    weft_slot_kind kind;
    bool frozen;        /* not trained */
    bool wide;          /* casts to 16 bits leave it as it is; initially false */
    weft_array **owner; /* WEFT_SLOT_TIED: the slot that it is */
    weft_array *copy;   /* WEFT_SLOT_TIED: the owner's array on the module's device, if the owner
                         * has the array that it had when the copy was made; NULL: none */
    uint64_t copied;    /* identifies that array */
} weft_slot;

typedef struct weft_child {
    const char *name; /* "": transparent, adds nothing to paths */
    weft_module **address;
} weft_child;

struct weft_module {
    const weft_module_type *type;
    const char *name;    /* in the parent; "" for a root */
    weft_module *parent; /* NULL for a root */
    weft_slot *slots;
    weft_child *children;
    int n_slots, n_children;
    weft_device *device; /* where calls compute, to which parameters elsewhere are copied for each
                          * call; NULL: where the parameters are */
    bool training;       /* false at first */
    bool failed;         /* a part of the constructor failed */
    bool unadapted;      /* "all-linear" of weft_nn_lora_options leaves it out; initially false */
    bool whole;          /* a new head: weft_nn_lora_inject trains its own parameters, as those of
                          * weft_nn_lora_options.whole; initially false */
    weft_array *row_keys, *vector_keys; /* internal: of a root, for dropout in its tree; borrowed */
};

/* ---- Building ------------------------------------------------------------------------------- */

/* A new zeroed struct of type T; NULL when there is no memory. */
#define weft_nn_new(T, module_type) ((T *)weft_nn_allocate(sizeof(T), (module_type)))
/* Sets m->field and registers it under its name. The module takes `value` over from the scope: it
 * is released when the module is freed or the field is set to another array. A parameter that is
 * NULL is absent and not registered. weft_nn_child takes ownership even on failure; NULL marks the
 * module as failed. */
#define weft_nn_param(m, field, value)                                                             \
    weft_nn_add_slot(&(m)->module, #field, &(m)->field, (value), WEFT_SLOT_PARAMETER)
#define weft_nn_statistic(m, field, value)                                                         \
    weft_nn_add_slot(&(m)->module, #field, &(m)->field, (value), WEFT_SLOT_STATISTIC)
#define weft_nn_buffer(m, field, value)                                                            \
    weft_nn_add_slot(&(m)->module, #field, &(m)->field, (value), WEFT_SLOT_BUFFER)
#define weft_nn_child(m, field, value) weft_nn_add_child(&(m)->module, #field, &(m)->field, (value))
/* The end of a constructor: the module, or NULL (and everything freed) when a part failed. */
#define weft_nn_finish(m) weft_nn_finish_module(&(m)->module)

/* The functions behind the macros. weft_nn_allocate returns NULL, with the message, when out of
 * memory; the others mark the module as failed. */
WEFT_API void *weft_nn_allocate(size_t size, const weft_module_type *type) WEFT_NONNULL(2);
WEFT_API void weft_nn_add_slot(weft_module *m, const char *name, weft_array **field,
                               weft_array *value, weft_slot_kind kind) WEFT_NONNULL(1, 3);
WEFT_API void weft_nn_add_child(weft_module *m, const char *name, weft_module **field,
                                weft_module *child) WEFT_NONNULL(1);
WEFT_API weft_module *weft_nn_finish_module(weft_module *m) WEFT_NONNULL(1);

/* Frees the tree; NULL is accepted. */
WEFT_API void weft_nn_free(weft_module *m);

/* Ties m's parameter `name` to the owner's, which must outlive m. Visitors see the owner only. m's
 * field holds the owner's array during calls (weft_nn_call, weft_nn_enter) and must not be read
 * otherwise. WEFT_INVALID for an unknown parameter. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_tie(weft_module *m, const char *name,
                                                weft_module *owner, const char *owner_name)
    WEFT_NONNULL(1, 3);

/* ---- Calling -------------------------------------------------------------------------------- */

/* Calls the module's forward function at x, in a scope of its own; shapes and dtypes are those of
 * the module. Error messages begin with the module's path. */
WEFT_API weft_array *weft_nn_call(weft_module *m, weft_array *x);

/* The same for typed functions of composites: weft_nn_enter(m) first, return weft_nn_leave(m, y)
 * last. */
#define weft_nn_enter(m) weft_nn_enter_module(&(m)->module, __func__)
#define weft_nn_leave(m, y) weft_nn_leave_module(&(m)->module, (y))
WEFT_API void weft_nn_enter_module(weft_module *m, const char *function);
WEFT_API weft_array *weft_nn_leave_module(weft_module *m, weft_array *y);
WEFT_API void weft_nn_leave_n(weft_module *m, weft_array **ys, int n); /* more than one result */

/* ---- Walking -------------------------------------------------------------------------------- */

/* A visited parameter: its full path, slot and module. */
typedef struct weft_nn_item {
    const char *path; /* "model.layers.3.self_attn.q_proj.weight", valid during the call */
    weft_slot *slot;
    weft_module *module;
} weft_nn_item;

/* Calls `visit` once for every parameter in the order of registration (tied ones as their owner). A
 * result other than WEFT_OK stops the walk and is returned. */
typedef weft_status weft_nn_visitor(void *context, const weft_nn_item *item);
WEFT_NODISCARD WEFT_API weft_status weft_nn_visit(weft_module *m, weft_nn_visitor *visit,
                                                  void *context);

/* The same for modules, parents first, m itself with the path "". `field` is the parent's field
 * (NULL for m); a visitor may replace *field by a module that has the old one as its child. */
typedef weft_status weft_nn_module_visitor(void *context, const char *path, weft_module **field);
WEFT_NODISCARD WEFT_API weft_status weft_nn_visit_modules(weft_module *m,
                                                          weft_nn_module_visitor *visit,
                                                          void *context);

/* The slot of a parameter by its path, such as "q_proj.weight" (for a tied parameter the owner's),
 * and a module by its path, such as "layers.3". Both have any shape and dtype and belong to the
 * tree; NULL for an unknown path.
 */
WEFT_API weft_array **weft_nn_find(weft_module *m, const char *path) WEFT_NONNULL(1);
WEFT_API weft_module *weft_nn_find_module(weft_module *m, const char *path) WEFT_NONNULL(1, 2);

/* Parameters sorted by path (as strcmp does). Free with weft_nn_slots_free. */
typedef struct weft_nn_slots {
    int n;
    weft_array ***slots; /* for weft_value_and_grad_slots, weft_update */
    char **paths;
} weft_nn_slots;
WEFT_NODISCARD WEFT_API weft_status weft_nn_parameters(weft_module *m, weft_nn_slots *out);
WEFT_NODISCARD WEFT_API weft_status weft_nn_trainable(weft_module *m,
                                                      weft_nn_slots *out); /* not frozen */
WEFT_API void weft_nn_slots_free(weft_nn_slots *slots) WEFT_NONNULL(1);

/* Freezes or unfreezes every parameter of the tree; statistics stay frozen. New parameters are not
 * frozen. */
WEFT_API void weft_nn_freeze(weft_module *m);
WEFT_API void weft_nn_unfreeze(weft_module *m);

/* Training mode (dropout is active) for the tree. */
WEFT_API void weft_nn_train(weft_module *m, bool training) WEFT_NONNULL(1);

/* Elements of all parameters, or of those that are not frozen. */
WEFT_API int64_t weft_nn_count(weft_module *m, bool trainable_only) WEFT_NONNULL(1);

/* Describes the tree, one module per line with the shapes of its parameters; modules with children
 * have their number of elements. Free with weft_free. NULL: out of memory. */
WEFT_API char *weft_nn_describe(weft_module *m);

/* Converts every parameter of a float dtype to `dtype` and evaluates it. Encoded parameters keep
 * their codes and scales. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_cast(weft_module *m, weft_dtype dtype);

/* ---- Loading and saving --------------------------------------------------------------------- */

/* Writes the renamed `name` to `out`: a tensor's path when loading, a parameter's tensor name when
 * saving. Return false to skip it. */
typedef bool weft_nn_rename(void *context, const char *name, char *out, size_t size);

typedef struct weft_nn_load_options {
    bool allow_missing;    /* parameters that are not in the file keep their arrays */
    bool allow_unexpected; /* tensors without a parameter are ignored */
    bool trainable_only;   /* ignore frozen parameters */
    weft_dtype dtype;      /* convert float parameters; 0: keep the file's dtype */
    weft_device *device;   /* NULL: the device of each parameter */
    const char *where;     /* prefix of messages; NULL: the file, or "load" */
    /* Quantizes weights as weft_nn_quantize (weft/nn_tools.h) while loading, one at a time, so that
     * the dense weights are never all in memory. Encoded weights stay as they are. May be NULL. */
    const struct weft_nn_quantize_options *quantize;
    weft_nn_rename *rename;
    void *context; /* of rename */
} weft_nn_load_options;

/* Sets the parameters from the file's tensors. WEFT_INVALID, without a change, for tensors that are
 * missing, unexpected or of another shape, all of which the message lists. NULL options: all zero.
 *
 * The weight of a linear, an embedding or another module with takes_encoded may be stored quantized
 * in MLX's format (weft/quantize.h): codes uint32 (out, in bits / 32) under its path, with "scales"
 * (and "biases") in the same module. It becomes an encoded array with the dtype of the scales
 * (bfloat16 if these are bytes) or options->dtype, and its module is frozen. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_load(weft_module *m, const weft_safetensors *file,
                                                 const weft_nn_load_options *options);

typedef struct weft_nn_save_options {
    bool trainable_only;
    bool dense; /* decode encoded parameters */
    weft_nn_rename *rename;
    void *context;
    const weft_metadata *metadata;
    int n_metadata;
    int64_t shard_bytes;         /* > 0: `path` is a folder for weft_safetensors_save_folder */
    weft_save_progress progress; /* with shard_bytes */
    int *files;                  /* with shard_bytes: set to the number of files; may be NULL */
} weft_nn_save_options;

/* Saves the parameters with weft_safetensors_save, encoded ones (weft_nn_quantize) as weft_nn_load
 * expects them, bit for bit; blocks without separate scales are decoded. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_save(weft_module *m, const char *path,
                                                 const weft_nn_save_options *options);

/* ---- Layers --------------------------------------------------------------------------------- */

/* Children named "0", "1", ...; at most `capacity` of them. */
typedef struct weft_nn_list {
    weft_module module;
    int n, capacity;
    weft_module **items;
    char (*names)[12];
} weft_nn_list;
WEFT_API weft_module *weft_nn_list_new(int capacity);
/* Takes ownership of `item` even on failure; NULL marks the list as failed. */
WEFT_API void weft_nn_list_append(weft_module *list, weft_module *item);
WEFT_API int weft_nn_list_count(const weft_module *list);
WEFT_API weft_module *weft_nn_list_at(const weft_module *list, int i);

/* x (..., in) -> (..., out): x weight^T + bias. weight (out, in) and bias (out) are initially
 * uniform in +-1/sqrt(in). */
typedef struct weft_nn_linear {
    weft_module module;
    weft_array *weight;
    weft_array *bias; /* may be NULL */
    bool int8;        /* use weft_linear_int8; initially false */
    /* Its input may have rows that several sequences share, as keys in a cache: sequences with
     * different adapters of it share no step (weft_nn_lora_bank). Initially false. */
    bool shared_rows;
} weft_nn_linear;
WEFT_API weft_module *weft_nn_linear_new(int64_t in, int64_t out, bool bias);

/* Token ids (...) -> rows of weight (V, E): (..., E). Initially normal with standard deviation
 * 1/sqrt(E). */
typedef struct weft_nn_embedding {
    weft_module module;
    weft_array *weight;
} weft_nn_embedding;
WEFT_API weft_module *weft_nn_embedding_new(int64_t V, int64_t E);
/* x (..., E) -> (..., V) in x's dtype: x weight^T, for an embedding that is also the output head.
 */
WEFT_API weft_array *weft_nn_embedding_head(weft_module *embedding, weft_array *x) WEFT_NONNULL(1);

/* weft_rms_norm with weight (E) of ones. */
typedef struct weft_nn_rms_norm {
    weft_module module;
    weft_array *weight;
    double eps, offset;
} weft_nn_rms_norm;
WEFT_API weft_module *weft_nn_rms_norm_new(int64_t E, double eps);

/* weft_layer_norm with weight (E) of ones and bias (E) of zeros. */
typedef struct weft_nn_layer_norm {
    weft_module module;
    weft_array *weight, *bias;
    double eps;
} weft_nn_layer_norm;
WEFT_API weft_module *weft_nn_layer_norm_new(int64_t E, double eps, bool bias);

/* In training mode: zero with probability p, else x / (1 - p), with a key of the default generator.
 * Otherwise x. p in [0, 1). */
typedef struct weft_nn_dropout {
    weft_module module;
    double p;
    int spatial; /* axes before the last that share a draw with it */
} weft_nn_dropout;
WEFT_API weft_module *weft_nn_dropout_new(double p);
/* Whole channels: x ([N,] H, W, C), or ([N,] D, H, W, C). */
WEFT_API weft_module *weft_nn_dropout2d_new(double p);
WEFT_API weft_module *weft_nn_dropout3d_new(double p);

/* ---- LoRA ----------------------------------------------------------------------------------- */

/* y = base(x) + scale (dropout(x) lora_A^T) lora_B^T (Hu et al. 2021). The base linear is a
 * transparent child, so its parameters keep their paths; the adapter adds <path>.lora_A (R, in) and
 * <path>.lora_B (out, R).
 *
 * With x in 16 bits, lora_A and lora_B are rounded to x's dtype for the products, as PyTorch's
 * autocast does, except those of PiSSA. The arrays themselves and their gradients keep their dtype.
 * Outside of training (weft_nn_train) lora_B is multiplied by the scale before it is rounded.
 *
 * With lora_magnitude_vector m (out) it is DoRA (Liu et al. 2024, as in PEFT): each row w of
 * W + scale lora_B lora_A is replaced by m w / |w|. The gradient treats |w| as a constant. */
typedef struct weft_nn_lora_linear {
    weft_module module;
    weft_module *base; /* weft_nn_linear */
    weft_module *lora_dropout;
    weft_array *lora_A;                /* initially uniform in +-1/sqrt(in) */
    weft_array *lora_B;                /* initially zeros */
    weft_array *lora_magnitude_vector; /* initially the norms of W's rows; NULL: plain LoRA */
    /* PiSSA: the initial lora_A and lora_B, which are subtracted; else NULL. Buffers. */
    weft_array *start_A, *start_B;
    double scale;
    bool merged; /* the base's weight contains the adapter, which is not added again */
    /* Computed once from the four arrays of kept_of, for calls without differentiation; NULL: every
     * call computes them. factor: DoRA's m / |w| (out). ready: lora_A and scale lora_B in the dtype
     * of the rows that they are multiplied with. Owned. */
    weft_array *factor, *ready[2], *kept_of[4];
    weft_dtype ready_dtype; /* of those rows */
    /* What hashing the contents of lora_A, lora_B and lora_magnitude_vector makes of a fingerprint
     * (weft_model_fingerprint); to 0: not computed since kept_of was set. */
    struct {
        uint64_t from, to;
    } hashed[3];
} weft_nn_lora_linear;
extern WEFT_API const weft_module_type weft_nn_linear_type, weft_nn_lora_linear_type;
/* The same struct around an embedding W (V, E), as in PEFT: y = base(ids) + scale (rows ids of
 * lora_A^T) lora_B^T. lora_A (R, V) is initially zero, and lora_B (E, R) is initially normal.
 * Their paths are <path>.lora_embedding_A and <path>.lora_embedding_B. There is no dropout. */
extern WEFT_API const weft_module_type weft_nn_lora_embedding_type;
/* The same struct around the stack of matrices (n, out, in) of a mixture's experts, with lora_A (n,
 * R, in) and lora_B (n, out, R): plain LoRA without dropout, as in PEFT. */
extern WEFT_API const weft_module_type weft_nn_lora_stack_type;

/* Takes ownership of `base` even on failure. */
WEFT_API weft_module *weft_nn_lora_linear_new(weft_module *base, int64_t rank, double scale,
                                              double dropout, weft_dtype dtype);

/* Another rank or alpha for the adapted modules whose path is `path` or ends in "." and `path`. */
typedef struct weft_nn_lora_pattern {
    const char *path;
    int64_t rank; /* 0: the options' */
    double alpha; /* 0: the options' */
} weft_nn_lora_pattern;

typedef struct weft_nn_lora_options {
    int64_t rank; /* 0: 8 */
    double alpha; /* 0: 16 */
    bool rslora;  /* scale alpha / sqrt(rank) instead of alpha / rank */
    bool dora;    /* adapters have a magnitude vector */
    /* PiSSA (Meng et al. 2024): B A starts as the part of W with the largest singular values, and
     * that start is subtracted, so W stays as it is. Not with dora. Needs rank <= min(in, out). */
    bool pissa;
    const weft_nn_lora_pattern
        *patterns; /* the first match with a rank, and with an alpha, counts */
    int n_patterns;
    double dropout;
    weft_dtype dtype; /* of the adapter: float32 (also for 0) or bfloat16 */
    /* Linears, embeddings and experts, by path or its last components. Experts may have their names
     * in transformers, as in "experts.gate_up_proj"; if gate and up are both adapted, they share
     * lora_A. The single target "all-linear" means every linear and all experts that are not
     * excluded. NULL: q_proj and v_proj. */
    const char *const *targets;
    int n_targets;
    const char *const *exclude; /* from "all-linear"; NULL: lm_head, score and the routers.
                                 * weft_module.unadapted always */
    int n_exclude;
    /* Modules, by path or its last components, whose own parameters are trained fully (PEFT's
     * modules_to_save). A tied module gets its own parameters. May be NULL. */
    const char *const *whole;
    int n_whole;
    /* Only paths whose first number (the layer) is one of these. NULL: all. */
    const int *layers;
    int n_layers;
} weft_nn_lora_options;

/* Freezes the tree and injects an adapter into each target. NULL options: all zero. A failure
 * changes nothing. WEFT_INVALID for a target that matches no module, for a pattern that matches no
 * adapted module, and if the tree has adapters already; WEFT_UNSUPPORTED for DoRA and PiSSA of an
 * embedding or of experts, for dropout of experts, and for a quantized module in `whole`. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_inject(weft_module *m,
                                                        const weft_nn_lora_options *options);

/* Makes the rows of n distinct token ids trainable in an embedding, given by path or its last
 * components, and in an output head that is tied to it; or in a head. The rows become the float32
 * parameter <path>.trainable_tokens_delta (n, E); the weight may be encoded. They count as an
 * adapter and are merged and removed with the others. Other parameters stay frozen or trainable, so
 * inject adapters first. A failure changes nothing: WEFT_INVALID for ids out of range,
 * WEFT_UNSUPPORTED if the module has an adapter. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_tokens_train(weft_module *m, const char *module,
                                                         const int32_t *tokens, int n);

/* The same with new tokens: the rows of ids from `known` on start as the mean of the known tokens'
 * rows. Ids beyond the module's V rows must be V, V + 1, ... without a gap; merging appends their
 * rows. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_tokens_add(weft_module *m, const char *module,
                                                       const int32_t *tokens, int n, int64_t known);

/* Number of adapters in the tree. */
WEFT_API int weft_nn_lora_count(weft_module *m);

/* What an adapter changes in one weight. */
typedef struct weft_nn_lora_change {
    char *path; /* of the adapted module: "model.layers.3.self_attn.q_proj" */
    int64_t rank, out_features, in_features;
    int64_t n; /* matrices: 1, or the experts of a stack */
    double scale;
    bool dora;
    /* Frobenius norms of the change, which for DoRA includes the rows' new norms, and of the
     * unchanged weight; of a stack, over all experts. */
    double norm, weight_norm;
    /* (n, rank): the singular values of scale B A of each matrix, in descending order. A PiSSA
     * adapter's are those of the difference from its initial values, with twice its rank. */
    double *singular;
    /* exp of the entropy of the singular values as shares of their sum (Roy and Vetterli 2007), the
     * mean over matrices: `rank` if all are equal, 1 if one is not 0, 0 for no change. */
    double effective_rank;
} weft_nn_lora_change;

/* Describes every adapter of the tree, in its order, in new memory; free *out with
 * weft_nn_lora_changes_free. WEFT_INVALID for a merged adapter. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_changes(weft_module *m, weft_nn_lora_change **out,
                                                         size_t *count) WEFT_NONNULL(1, 2, 3);
WEFT_API void weft_nn_lora_changes_free(weft_nn_lora_change *changes, size_t count); /* NULL is
                                                                                        accepted */

/* Adds every adapter to its base's weight (in float32, rounded to the weight's dtype), or subtracts
 * it again; a DoRA adapter also scales the rows. The adapters stay in the tree. An adapted weight
 * that is tied to another module's is untied, since only one of them changes. Fails as weft_eval.
 */
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_merge(weft_module *m);
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_unmerge(weft_module *m);

/* Removes the adapters from the tree; merged weights stay merged. */
WEFT_API void weft_nn_lora_remove(weft_module *m);

/* ---- Banks of adapters ---------------------------------------------------------------------- */

/* Adapters of one tree (borrowed), which computes with none of them, with one, or in a batch with
 * another one for each sequence (weft_generate_request.adapter). With one it computes exactly what
 * it computes with that adapter alone. Used by the thread that uses the tree. */
typedef struct weft_nn_lora_bank weft_nn_lora_bank;
typedef struct weft_nn_lora_member weft_nn_lora_member;

/* Creates an empty bank in *out; free it with weft_nn_lora_bank_free, before the tree, which is
 * left without adapters. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_bank_new(weft_module *tree,
                                                          weft_nn_lora_bank **out)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_nn_lora_bank_free(weft_nn_lora_bank *bank); /* NULL is accepted */

/* Moves the adapters that were injected into the tree to the bank, as one member. The tree then
 * computes without adapters. On a failure it has none either: WEFT_INVALID if it had none, or none
 * but those of the bank; WEFT_UNSUPPORTED for rows of tokens (weft_nn_tokens_train). */
WEFT_NODISCARD WEFT_API weft_status weft_nn_lora_bank_take(weft_nn_lora_bank *bank,
                                                           weft_nn_lora_member **out)
    WEFT_NONNULL(1, 2);
/* Leaves the member out of batches with several adapters, which would read its factors: for one
 * that is trained while such batches are computed. */
WEFT_API void weft_nn_lora_bank_set_apart(weft_nn_lora_member *member) WEFT_NONNULL(1);
/* Frees a member, which no running batch uses. NULL is accepted. */
WEFT_API void weft_nn_lora_bank_drop(weft_nn_lora_bank *bank, weft_nn_lora_member *member)
    WEFT_NONNULL(1);

/* Makes the tree compute with one member; NULL: without adapters. */
WEFT_API void weft_nn_lora_bank_use(weft_nn_lora_bank *bank, const weft_nn_lora_member *member)
    WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
