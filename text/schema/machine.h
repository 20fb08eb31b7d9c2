/* text/schema/machine.h -- follows JSON that a schema allows, byte by byte.
 *
 * What may come next depends on a stack of frames: the value that is being read, the object that it
 * is in, and so on. Where a schema leaves a choice there are several stacks, of which those that do
 * not fit fall away. Frames do not change once made, so stacks share what lies below, and going
 * back is forgetting. Every frame knows how many bytes are missing to the end of the document.
 *
 * The JSON is a plain one: no whitespace before or behind the document; within it, before a value,
 * a key or a closing bracket, either one space or a line break with up to 32 spaces or tabs.
 */
#ifndef WEFT_TEXT_SCHEMA_MACHINE_H
#define WEFT_TEXT_SCHEMA_MACHINE_H

#include "text/schema/array.h"
#include "text/schema/number.h"
#include "text/schema/object.h"

typedef enum frame_kind {
    FRAME_DONE, /* below the document */
    FRAME_ROOT, /* the document is still to come */
    FRAME_LITERAL,
    FRAME_NUMBER,
    FRAME_STRING,
    FRAME_ARRAY,
    FRAME_OBJECT
} frame_kind;

/* Of an ascending list those that begin with the `at` bytes that were read: low .. high - 1. */
typedef struct literal_part {
    const char *const *list;
    int32_t low, high, at;
} literal_part;

typedef struct string_part {
    int64_t length;   /* characters so far, as far as they count */
    int32_t state;    /* of the pattern */
    uint32_t value;   /* of half a character */
    uint32_t missing; /* bytes or hexadecimal digits of it */
} string_part;

/* The bytes of a key, the last first. */
typedef struct key_byte {
    const struct key_byte *before;
    unsigned char byte;
} key_byte;

enum object_phase {
    OBJECT_OPEN,  /* behind the opening bracket */
    OBJECT_NEXT,  /* behind a comma */
    OBJECT_AFTER, /* behind a value */
    OBJECT_KEY,   /* in a key that the schema names */
    OBJECT_FREE,  /* in a key that it does not name */
    OBJECT_COLON, /* behind a key */
    OBJECT_VALUE  /* behind a colon */
};

typedef struct object_part {
    object_state state;
    int32_t node; /* of the value behind the key */
    /* In a key: the properties low .. high - 1 begin like its `at` bytes. */
    int32_t low, high, at;
    /* In a key that the schema does not name: which of the choice's `keys` and `wanted` it is of
     * (or -1); the state of the keys' pattern; the keys of `extras` that begin like it, and the
     * part of a character at its end: its bits, and the bytes that are missing. */
    int32_t keys, wanted, key_state;
    const key_byte *bytes;
    const extra_key *alike;
    uint64_t key_hash;
    uint32_t character, missing;
} object_part;

typedef struct frame {
    unsigned char kind, phase, blank;
    int32_t choice;
    int32_t depth;
    const struct frame *parent;
    uint64_t hash;
    int64_t rest; /* bytes to the end of the document, at least so many are needed */
    union {
        literal_part literal;
        number_prefix number;
        string_part string;
        array_state array;
        object_part object;
    } as;
} frame;

/* Stacks, by their top frames. */
typedef struct frame_list {
    const frame **tops;
    size_t n, capacity;
} frame_list;

/* Memory of frames, handed back in the order it was taken. */
typedef struct frame_block {
    struct frame_block *before;
    size_t used, size;
    _Alignas(16) char data[];
} frame_block;

typedef struct frame_mark {
    frame_block *block;
    size_t used;
} frame_mark;

/* The hashes of the stacks that a step has made so far. */
enum { MACHINE_SLOTS = 4096 };

typedef struct machine_slot {
    uint64_t hash, step;
} machine_slot;

typedef struct machine {
    const weft__schema *schema;
    frame_block *block;
    frame_list out, finished; /* of the step under way */
    machine_slot slots[MACHINE_SLOTS];
    uint64_t step;
    weft_status status; /* of the first failure */
} machine;

void weft__machine_open(machine *m, const weft__schema *schema);
void weft__machine_close(machine *m);

frame_mark weft__machine_mark(const machine *m);
void weft__machine_release(machine *m, frame_mark mark);

/* Gives back what only frames need that none of these stacks contains. False, with no stack left,
 * without memory. */
bool weft__machine_compact(machine *m, frame_list *stacks);

/* The stack at the start of a document. */
const frame *weft__machine_start(machine *m);

/* The stacks behind one more byte, in m->out; none: the byte does not fit. */
void weft__machine_step(machine *m, const frame *const *tops, size_t n, unsigned char byte);
/* Whether the document may end. */
bool weft__machine_ends(const machine *m, const frame *const *tops, size_t n);
/* Bytes that are missing to the nearest end. */
int64_t weft__machine_distance(const frame *const *tops, size_t n);

/* Copies stacks to the end of `out`. */
weft_status weft__frames_append(frame_list *out, const frame *const *tops, size_t n);

/* Between machine.c and what follows each kind of value. A frame's hash and depth are computed, and
 * `rest` gets what the parent needs. */
const frame *weft__machine_push(machine *m, frame f);
void *weft__machine_allocate(machine *m, size_t size);
void weft__machine_emit(machine *m, const frame *top);
/* The value whose frame had this parent is complete. */
void weft__machine_complete(machine *m, const frame *parent);
/* Begins a value of a node with its first byte. */
void weft__machine_value(machine *m, int node, unsigned char byte, const frame *parent);
/* Begins one of n literals, which are ascending, with its first byte. */
void weft__machine_literal(machine *m, int choice, const char *const *list, size_t n,
                           unsigned char byte, const frame *parent);
/* Whether a byte is whitespace that may come now; the state behind it in *blank. */
bool weft__machine_blank(unsigned char *blank, unsigned char byte);

void weft__string_begin(machine *m, int choice, const frame *parent);
void weft__string_step(machine *m, const frame *top, unsigned char byte);
void weft__object_begin(machine *m, int choice, const frame *parent);
void weft__object_step(machine *m, const frame *top, unsigned char byte);
void weft__key_begin(machine *m, const frame *top);
void weft__key_step(machine *m, const frame *top, unsigned char byte);
void weft__free_key_step(machine *m, const frame *top, unsigned char byte);
void weft__array_begin(machine *m, int choice, const frame *parent);
void weft__array_step(machine *m, const frame *top, unsigned char byte);

/* Whether a byte continues UTF-8: `missing` bytes are to come, of the character whose bits so far
 * are *value. False: it is not UTF-8. */
bool weft__utf8_feed(uint32_t *value, uint32_t *missing, unsigned char byte);

#endif
