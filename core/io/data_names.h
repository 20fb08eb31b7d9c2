/* core/io/data_names.h -- the formats of data files: their names, their endings, and whether a file
 * is compressed. */
#ifndef WEFT_CORE_IO_DATA_NAMES_H
#define WEFT_CORE_IO_DATA_NAMES_H

#include "core/io/decompress.h"
#include "weft/train.h"

/* All formats: F(member of weft_data_format, word of --format, title, endings...). A dataset of the
 * hub is read in the format that most of its files have; of equally frequent ones the first here.
 * weft__read_WORD in train/data/ reads a file. */
#define WEFT__DATA_FORMATS(F)                                                                      \
    F(PARQUET, parquet, "Parquet", ".parquet")                                                     \
    F(JSONL, jsonl, "JSON lines", ".jsonl", ".ndjson")                                             \
    F(JSON, json, "a JSON array", ".json")                                                         \
    F(CSV, csv, "CSV", ".csv")                                                                     \
    F(TSV, tsv, "TSV", ".tsv")                                                                     \
    F(TEXT, text, "plain text", ".txt", ".text")

/* The titles, and the words, separated by commas. */
const char *weft__data_titles(void);
const char *weft__data_words(void);

/* The format that a path's ending names, without that of compression; WEFT_DATA_AUTO: none. */
weft_data_format weft__data_named(const char *path);
/* The same, and WEFT_UNSUPPORTED for endings of formats that Weft cannot read. */
weft_status weft__data_format_named(const char *path, weft_data_format *out);
/* How a file is compressed, by its ending. */
weft__codec weft__data_codec(const char *path);

#endif
