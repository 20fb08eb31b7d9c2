/* text/schema/machine.h -- recognizes JSON that a schema allows, byte by byte.
 *
 * The state is a stack of frames: the value being read, the object that contains it, and so on.
 * Where a schema leaves a choice there are several stacks, and those that do not fit are dropped.
 * Frames are immutable, so stacks share common parts, and backtracking means dropping a stack.
 * Every frame knows how many bytes are missing to the end of the document.
 *
 * The accepted JSON is restricted: no whitespace before or after the document; within it, before a
 * value, a key or a closing bracket, either one space or a line break with up to 4 spaces or tabs
 * for each enclosing array or object, 32 at most. Strings have at most 32 whitespace characters in
 * succession unless their pattern needs them.
 */
#ifndef WEFT_TEXT_SCHEMA_MACHINE_H
#define WEFT_TEXT_SCHEMA_MACHINE_H

#include "text/schema/array.h"
#include "text/schema/number.h"
#include "text/schema/object.h"

typedef enum frame_kind {
    FRAME_DONE, /* after the document */
    FRAME_ROOT, /* before the document */
    FRAME_LITERAL,
    FRAME_NUMBER,
    FRAME_STRING,
    FRAME_ARRAY,
    FRAME_OBJECT
} frame_kind;

/* The entries low .. high - 1 of an ascending list, which begin with the `at` bytes read so far. */
typedef struct literal_part {
    const char *const *list;
    int32_t low, high, at;
} literal_part;

typedef struct string_part {
    int64_t length;   /* characters so far, saturating when more make no difference */
    int32_t state;    /* of the pattern */
    uint32_t value;   /* of an incomplete character */
    uint32_t missing; /* bytes or hexadecimal digits missing from it */
    uint64_t mark;    /* of an element that must differ from others: hash of the characters */
    bool distinct;    /* it is such an element; it is not empty */
    bool repeated;    /* it equals another one so far */
} string_part;

/* A byte of a key, linked to the byte before it. */
typedef struct key_byte {
    const struct key_byte *before;
    unsigned char byte;
} key_byte;

enum object_phase {
    OBJECT_OPEN,  /* after the opening bracket */
    OBJECT_NEXT,  /* after a comma */
    OBJECT_AFTER, /* after a value */
    OBJECT_KEY,   /* in a named key */
    OBJECT_FREE,  /* in an unnamed key */
    OBJECT_COLON, /* after a key */
    OBJECT_VALUE  /* after a colon */
};

typedef struct object_part {
    object_state state;
    int32_t node; /* of the value after the key */
    /* In a key: properties low .. high - 1 begin with its first `at` bytes. */
    int32_t low, high, at;
    /* In an unnamed key: the entry of the choice's `keys` that it belongs to; the state of its
     * pattern; the range of `extras` with the same beginning; and its incomplete last character:
     * bits, and missing bytes. */
    int32_t keys, key_state;
    const key_byte *bytes;
    const extra_key *alike;
    uint64_t key_hash;
    uint32_t character, missing;
} object_part;

typedef struct frame {
    unsigned char kind, phase;
    unsigned char blank; /* whitespace read last: in an array or object its state, in a string its
                          * length */
    int32_t choice;
    int32_t depth;
    const struct frame *parent;
    uint64_t hash;
    int64_t rest; /* minimum number of bytes to the end of the document */
    union {
        literal_part literal;
        number_prefix number;
        string_part string;
        array_state array;
        object_part object;
    } as;
} frame;

/* Stacks, as their top frames. */
typedef struct frame_list {
    const frame **tops;
    size_t n, capacity;
} frame_list;

/* Memory for frames, released in reverse order. */
typedef struct frame_block {
    struct frame_block *before;
    size_t used, size;
    _Alignas(16) char data[];
} frame_block;

typedef struct frame_mark {
    frame_block *block;
    size_t used;
} frame_mark;

/* Hash table of the stacks that a step has made so far. */
enum { MACHINE_SLOTS = 4096 };

typedef struct machine_slot {
    uint64_t hash, step;
} machine_slot;

typedef struct machine {
    const weft__schema *schema;
    frame_block *block;
    frame_list out, finished; /* of the current step */
    machine_slot slots[MACHINE_SLOTS];
    uint64_t step;
    weft_status status; /* the first failure */
} machine;

void weft__machine_open(machine *m, const weft__schema *schema);
void weft__machine_close(machine *m);

frame_mark weft__machine_mark(const machine *m);
void weft__machine_release(machine *m, frame_mark mark);

/* Frees memory of frames that none of these stacks contains. When out of memory: false, and no
 * stack is left. */
bool weft__machine_compact(machine *m, frame_list *stacks);

/* The stack at the start of a document. */
const frame *weft__machine_start(machine *m);

/* Computes the stacks after one more byte, in m->out; none: the byte is not allowed. */
void weft__machine_step(machine *m, const frame *const *tops, size_t n, unsigned char byte);
/* Whether the document may end here. */
bool weft__machine_ends(const machine *m, const frame *const *tops, size_t n);
/* Missing bytes to the nearest end. */
int64_t weft__machine_distance(const frame *const *tops, size_t n);

/* Appends copies of stacks to `out`. */
weft_status weft__frames_append(frame_list *out, const frame *const *tops, size_t n);

/* Between machine.c and the files for each kind of value. Pushes a frame: computes its hash and
 * depth, and adds what the parent needs to `rest`. */
const frame *weft__machine_push(machine *m, frame f);
void *weft__machine_allocate(machine *m, size_t size);
void weft__machine_emit(machine *m, const frame *top);
/* Completes the value whose frame had this parent. */
void weft__machine_complete(machine *m, const frame *parent);
/* Begins a value of a node with its first byte. */
void weft__machine_value(machine *m, int node, unsigned char byte, const frame *parent);
/* Begins one of n literals (ascending) with its first byte. */
void weft__machine_literal(machine *m, int choice, const char *const *list, size_t n,
                           unsigned char byte, const frame *parent);
/* Whether the elements of an array must differ, and are compared as they are read; whether one with
 * this mark exists; and the array's frame after the element. */
bool weft__array_is_distinct(const machine *m, const frame *f);
bool weft__array_has(const frame *f, uint64_t mark);
const frame *weft__array_mark(machine *m, const frame *f, uint64_t mark);
/* Whether a byte is whitespace allowed now; f->blank becomes the state after it. */
bool weft__machine_blank(frame *f, unsigned char byte);

void weft__string_begin(machine *m, int choice, const frame *parent);
void weft__string_step(machine *m, const frame *top, unsigned char byte);
void weft__object_begin(machine *m, int choice, const frame *parent);
void weft__object_step(machine *m, const frame *top, unsigned char byte);
void weft__key_begin(machine *m, const frame *top);
void weft__key_step(machine *m, const frame *top, unsigned char byte);
void weft__free_key_step(machine *m, const frame *top, unsigned char byte);
void weft__array_begin(machine *m, int choice, const frame *parent);
void weft__array_step(machine *m, const frame *top, unsigned char byte);

/* Whether a byte is valid UTF-8 at this point: `missing` bytes of the current character, whose bits
 * so far are *value. */
bool weft__utf8_feed(uint32_t *value, uint32_t *missing, unsigned char byte);

#endif
