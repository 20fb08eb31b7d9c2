/* models/gguf/gguf.c -- reads the tensors of a GGUF file as those of a module tree: renames them,
 * reorders rows of q and k from interleaved to split rotary halves, removes norm offsets. */
#include "models/gguf/gguf.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/gguf/arch.h"
#include "weft/elementwise.h"
#include "weft/quantize.h"

/* ---- tensors -------------------------------------------------------------------------------- */

typedef struct reader {
    const weft_gguf *file;
    const weft__family *family;
    const weft__gguf_arch *arch;
    weft_dtype dtype;
    int64_t heads, kv_heads; /* 0: rows are not reordered */
    bool apart;              /* split combined gates and ups of experts into two tensors */
} reader;

/* Reorders pairs of rows (2j, 2j + 1) of each head to two halves (j, j + half). Whole rows move, so
 * blocks stay intact. */
static weft_array *halves(const reader *r, int i, int64_t heads)
{
    const weft_gguf_entry *e = weft_gguf_at(r->file, i);
    const int64_t rows = e->shape.at[0];
    if (rows < 1 || heads > rows || rows % (2 * heads) != 0)
        return weft_error_array("%s: tensor '%s': %lld rows for %lld heads",
                                weft_gguf_path(r->file), weft_printable(e->name), (long long)rows,
                                (long long)heads);
    const int64_t half = rows / heads / 2, bytes = e->bytes / rows;
    char *moved = weft_malloc(e->bytes ? (size_t)e->bytes : 1);
    const char *from = weft_gguf_bytes(r->file, i);
    if (moved == NULL)
        return weft__memory_error(weft_gguf_path(r->file), weft_printable(e->name));
    for (int64_t row = 0; row < rows; row++) {
        const int64_t head = row / (2 * half), at = row % (2 * half);
        const int64_t source = head * 2 * half + at % half * 2 + at / half;
        memcpy(moved + row * bytes, from + source * bytes, (size_t)bytes);
    }
    return e->encoding ? weft_from_blocks(moved, e->encoding, r->dtype, e->shape, weft_free, moved)
                       : weft_from_memory(moved, e->dtype, e->shape, weft_free, moved);
}

int64_t weft__gguf_moved_heads(const weft__gguf_arch *arch, const char *path, int64_t heads,
                               int64_t kv_heads)
{
    return !arch->permuted           ? 0
           : strstr(path, ".q_proj") ? heads
           : strstr(path, ".k_proj") ? kv_heads
                                     : 0;
}

static weft_array *tensor(const reader *r, int i, const char *path)
{
    const weft_gguf_entry *e = weft_gguf_at(r->file, i);
    const int64_t heads = weft__gguf_moved_heads(r->arch, path, r->heads, r->kv_heads);
    weft_array *a = heads > 0 && e->shape.n > 0
                        ? halves(r, i, heads)
                        : weft_gguf_get_rows(r->file, i, 0, e->shape, r->dtype);
    if (r->arch->norm_offset != 0 && weft__ends_with(path, "norm.weight"))
        a = weft_subtract(weft_decode(a), weft_scalar(r->arch->norm_offset, weft_dtype_of(a)));
    if (r->arch->convert)
        a = r->arch->convert(path, a, NULL);
    /* Matrices of linears, embeddings and experts are used without decoding. */
    if (e->encoding && (e->shape.n < 2 || !weft__ends_with(path, ".weight")))
        a = weft_decode(a);
    /* llama.cpp's tools write a head of one row as a vector. */
    return e->shape.n == 1 && strcmp(e->name, "cls.output.weight") == 0 ? weft_expand_dims(a, 0)
                                                                        : a;
}

/* The name in a checkpoint of transformers, with which folders are written; NULL: the path. */
static const char *checkpoint_name(const reader *r, const char *path, char out[WEFT_NN_PATH])
{
    return weft__name_stored(r->family, path, out, WEFT_NN_PATH) ? out : NULL;
}

/* Splits the gates and ups of all experts in one tensor (n, 2 F, E), gates first, into two. */
static weft_status add_parts(const reader *r, weft_array *both, const char *path,
                             weft__weights *out)
{
    static const char *const names[] = {"gate_proj", "up_proj"};
    const int n = (int)(strlen(path) - strlen("gate_up_proj.weight"));
    weft_array *parts[2];
    weft_status status = WEFT_OK;
    weft_split(weft_encoding_of(both) ? weft_decode(both) : both, 2, 1, parts);
    for (int j = 0; j < 2 && status == WEFT_OK; j++) {
        char own[WEFT_NN_PATH], name[WEFT_NN_PATH];
        snprintf(own, sizeof own, "%.*s%s.weight", n, path, names[j]);
        status = weft__weights_add(out, own, checkpoint_name(r, own, name), parts[j]);
    }
    return status;
}

/* In blocks they stay one tensor, since blocks cannot be sliced. */
static weft_status add(const reader *r, int i, const char *path, weft__weights *out)
{
    const weft_gguf_entry *e = weft_gguf_at(r->file, i);
    const bool both = strstr(path, ".switch_") && weft__ends_with(path, ".gate_up_proj.weight");
    char name[WEFT_NN_PATH];
    if (both && (e->shape.n != 3 || e->shape.at[1] % 2 != 0))
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected (experts, 2 F, E)",
                         weft_gguf_path(r->file), weft_printable(e->name));
    weft_array *a = tensor(r, i, path);
    return both && (r->apart || !e->encoding)
               ? add_parts(r, a, path, out)
               : weft__weights_add(out, path, checkpoint_name(r, path, name), a);
}

static weft_status heads_of(const weft__gguf_reader *r, const char *name, int64_t *heads)
{
    const weft_gguf_value *v = weft__gguf_value(r, name);
    const int64_t first = v ? weft__gguf_first(r, name) : *heads;
    if (v && first < 1 && r->arch->kv_heads && *heads > 0)
        return WEFT_OK; /* a hybrid without attention */
    *heads = first;
    if (v && first < 1)
        return weft_fail(WEFT_INVALID, "%s: %s: expected a number of heads",
                         weft_gguf_path(r->file), v->key);
    return WEFT_OK;
}

/* The dtype of the first matrix of attention's results, or `blocks` if it is in blocks. */
static weft_dtype native(const weft_gguf *file, weft_dtype blocks)
{
    for (int i = 0; i < weft_gguf_count(file); i++) {
        const weft_gguf_entry *e = weft_gguf_at(file, i);
        if (weft__ends_with(e->name, ".attn_output.weight"))
            return e->encoding == NULL && weft_dtype_is_float(e->dtype) ? e->dtype : blocks;
    }
    return blocks;
}

weft_status weft__gguf_weights(const weft_gguf *file, bool apart, weft_dtype dtype,
                               weft_dtype blocks, weft_dtype *used, weft__weights *out)
{
    weft__gguf_reader file_of;
    weft_status status = weft__gguf_reader_of(file, &file_of);
    if (status != WEFT_OK)
        return status;
    *used = dtype ? dtype : native(file, blocks);
    reader r = {.file = file,
                .family = file_of.family->own,
                .arch = file_of.arch,
                .dtype = *used,
                .apart = apart};
    if (r.arch->permuted) {
        status = heads_of(&file_of, "attention.head_count", &r.heads);
        r.kv_heads = r.heads;
        if (status == WEFT_OK)
            status = heads_of(&file_of, "attention.head_count_kv", &r.kv_heads);
    }
    for (int i = 0; i < weft_gguf_count(file) && status == WEFT_OK; i++) {
        char path[WEFT_NN_PATH];
        const char *tensor_name = weft_gguf_at(file, i)->name;
        /* Read with the configuration. */
        if (strncmp(tensor_name, "rope_f", 6) == 0 ||
            (r.arch->linears && weft__gguf_is_linear(tensor_name)))
            continue;
        if (!weft__name_from_gguf(r.family, tensor_name, path, sizeof path))
            return weft_fail(WEFT_UNSUPPORTED, "%s: tensor '%s' is unknown in %s models",
                             weft_gguf_path(file), weft_printable(tensor_name), file_of.name);
        status = add(&r, i, path, out);
    }
    weft__weights_sort(out);
    return status;
}
