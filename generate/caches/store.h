/* generate/caches/store.h -- storage of keys or values in a cache: unchanged, as float16, or
 * quantized to 8 or 4 bits with a step and a least value, float32, per group of elements of each
 * token's head. They are one or three parts (B, S, Hk, ...), which are sliced and joined alike. */
#ifndef WEFT_GENERATE_CACHES_STORE_H
#define WEFT_GENERATE_CACHES_STORE_H

#include "weft/ops.h"

enum { WEFT__PARTS = 3 };

typedef struct weft__store {
    weft_array *held[WEFT__PARTS]; /* (B, room, Hk, ...); NULL while empty */
    int bits;                      /* 16, 8 or 4; 0 or 32: unchanged */
    int64_t dtype;                 /* a weft_dtype: that of the input */
    bool none;                     /* nothing is stored, and inputs are NULL */
    bool paged;                    /* `held` has one row, the pages of those of the inputs */
} weft__store;

typedef struct weft__parts {
    weft_array *at[WEFT__PARTS];
    int n;
} weft__parts;

int weft__store_parts(const weft__store *store);
/* Bytes of one token's head of D elements of `dtype`, stored in `bits`. */
int64_t weft__store_bytes(int bits, int64_t D, weft_dtype dtype);
/* x as `dtype`; numbers that are out of float16's range become its largest. */
weft_array *weft__store_rounded(weft_array *x, weft_dtype dtype);

/* The stored parts. */
weft__parts weft__store_held(const weft__store *store);

/* NULL, or an error array: x (B, L, Hk, D) must match the earlier inputs. */
weft_array *weft__store_check(const weft__store *store, weft_array *x);

/* Whether parts that were set from outside are consistent. */
bool weft__store_fits(const weft__store *store);

weft__parts weft__store_encode(const weft__store *store, weft_array *x);
/* The parts as attention reads them; NULL arrays if they are not quantized. Floats are read as they
 * are stored. */
weft_kv_codes weft__store_codes(const weft__store *store, const weft__parts *parts);
weft_array *weft__store_decode(const weft__store *store, const weft__parts *parts);

/* Storage for `room` tokens: `held` extended, or zeros like `like`. */
weft__parts weft__parts_with_room(const weft__parts *held, const weft__parts *like, int64_t room);
weft__parts weft__parts_slice(const weft__parts *parts, int64_t from, int64_t to);
weft__parts weft__parts_concatenate(const weft__parts *parts, int n);
/* Pages of `page` tokens each, (pages, page, Hk, ...), of parts with one row of them. */
weft__parts weft__parts_pages(const weft__parts *parts, int64_t page);
/* `into` with `from` written at token start, int32 (1); or one token for each row, (B). If `into`
 * has one row, these are different tokens of it. */
weft__parts weft__parts_write(const weft__parts *into, const weft__parts *from, weft_array *start);

#endif
