/* core/compile/import.h -- what reading a file of functions and calling them share. */
#ifndef CORE_COMPILE_IMPORT_H
#define CORE_COMPILE_IMPORT_H

#include "core/compile/export.h"
#include "core/compile/shapeless.h"
#include "weft/io.h"

typedef struct weft__function {
    char *name, *signature;
    weft__trace trace;
    weft__symbols symbols; /* of dynamic axes; none: n is 0 */
    weft__json at;         /* where it is in the document */
} weft__function;

struct weft_imported {
    char *path;
    int n;
    int64_t version; /* of the format */
    weft__function *functions;
    /* Graphs of functions with dynamic axes are read again for each call. */
    weft_safetensors *file;
    weft__json_doc doc;
    weft__json encoded;   /* which tensors are encoded arrays; empty: none */
    weft_array **tensors; /* captured arrays by their place in the file, held; NULL: not yet used */
};

/* The graph of a function while it is built: on placeholders, or for a call at other lengths. */
typedef struct weft__building {
    const weft_imported *from;
    weft__symbols *symbols;
    const int64_t *sizes; /* of the symbols */
    bool calling;
    weft_array **arguments, **nodes, **results;
    int64_t *ids; /* per node, rising */
    size_t n_arguments, n_nodes, n_results;
} weft__building;

/* import_graph.c: the function's nodes and results over the arguments. */
weft_status weft__read_graph(weft__building *b, const weft__json *at);
/* Frees all but the arguments. */
void weft__building_free(weft__building *b);

#endif
