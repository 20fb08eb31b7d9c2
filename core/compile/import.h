/* core/compile/import.h -- types shared by reading and calling exported functions. */
#ifndef CORE_COMPILE_IMPORT_H
#define CORE_COMPILE_IMPORT_H

#include "core/compile/export.h"
#include "core/compile/shapeless.h"
#include "weft/io.h"

typedef struct weft__function {
    char *name, *signature;
    weft__trace trace;
    weft__symbols symbols; /* of dynamic axes; n is 0 if there are none */
    weft__json at;         /* position in the document */
} weft__function;

struct weft_imported {
    char *path;
    int n;
    int64_t version; /* version of the format */
    weft__function *functions;
    /* For functions with dynamic axes, whose graphs are read again for each call. */
    weft_safetensors *file;
    weft__json_doc doc;
    weft__json encoded;   /* describes which tensors are encoded arrays; may be empty */
    weft_array **tensors; /* captured arrays by their index in the file, held; NULL: not yet used */
};

/* The graph of a function under construction: on placeholders, or for a call at other lengths. */
typedef struct weft__building {
    const weft_imported *from;
    weft__symbols *symbols;
    const int64_t *sizes; /* lengths of the symbols */
    bool calling;
    weft_array **arguments, **nodes, **results;
    int64_t *ids; /* per node, ascending */
    size_t n_arguments, n_nodes, n_results;
} weft__building;

/* import_graph.c: reads the function's nodes and results over the given arguments. */
weft_status weft__read_graph(weft__building *b, const weft__json *at);
/* Frees everything except the arguments. */
void weft__building_free(weft__building *b);

#endif
