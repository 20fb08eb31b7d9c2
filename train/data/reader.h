/* train/data/reader.h -- between the files that read rows and make samples of them. */
#ifndef WEFT_TRAIN_DATASET_READER_H
#define WEFT_TRAIN_DATASET_READER_H

#include "core/io/json.h"
#include "train/data/builder.h"
#include "train/data/cache.h"
#include "train/data/dataset.h"

/* Where something happened: how often, and the first places as text. */
typedef struct weft__places {
    int64_t n;
    char text[320];
} weft__places;

/* What every row of a source needs. */
typedef struct weft__reader {
    const char *source; /* for messages about all of it */
    const char *path;   /* of the file that is being read */
    const char *where;  /* for messages: the path, or path:line */
    const weft_tokenizer *tokenizer;
    weft_dataset_options o; /* eos filled in */
    int32_t *prefix;        /* ids that the tokenizer puts in front of a text */
    size_t n_prefix;
    weft__builder sample;
    weft_dataset *rows; /* the samples of rows so far */
    int64_t n_rows, n_bad;
    weft__places longer, empty;
    weft__said *said;
} weft__reader;

/* Empties the builder and adds the ids of a text to it. `first` adds the prefix unless the text
 * begins with it. */
weft_status weft__reader_begin(weft__reader *r, const char *text, size_t length, bool first,
                               float weight);

/* Makes samples of a row, in r->rows; the row's name is its place. train/data/row.c */
weft_status weft__reader_add_row(weft__reader *r, const weft__json *row);

/* Adds the sample of a prompt and its completion, texts or arrays of messages. */
weft_status weft__reader_add_completion(weft__reader *r, const weft__json *row,
                                        const weft__json *prompt, const weft__json *completion);

/* Adds the pair of a row with chosen and rejected; as labelled samples, if the reader's options say
 * so, which a row with prompt, completion and label is too. train/data/preference.c */
weft_status weft__reader_add_preference(weft__reader *r, const weft__json *row);

/* Adds a text with its label (options' labels). train/data/classified.c */
weft_status weft__reader_add_classified(weft__reader *r, const weft__json *row);

/* Replaces a member's text that is an array of messages by the array. WEFT_INVALID for a malformed
 * array of messages. train/data/cells.c */
weft_status weft__reader_unpack(const weft__json *row, const char *key);

/* The member "label": true, false, 1 or 0, also as texts. */
weft_status weft__reader_label(const weft__json *row, bool *out);

/* Reads the rows of a file in that format; r->path is its name. A bad row is skipped while
 * max_bad_rows allows it. train/data/rows.c */
weft_status weft__reader_add_rows(weft__reader *r, const char *data, size_t size,
                                  weft_data_format format);

/* What to do after row `where`, whose outcome is `status`: notes long and empty samples since
 * `before`, and turns the failure of a bad row into WEFT_OK while max_bad_rows allows it. */
weft_status weft__reader_row_done(weft__reader *r, const char *where, weft_status status,
                                  const weft_dataset_info *before);

/* The rows of a CSV or TSV file. train/data/csv.c */
weft_status weft__reader_add_table(weft__reader *r, const char *data, size_t size, char separator);

/* The files of a path, in order: the file, those of a folder or those that match a pattern. WEFT_IO
 * if there is none. train/data/files.c */
typedef struct weft__data_files {
    char **at;
    int n, capacity;
} weft__data_files;

weft_status weft__data_files_find(const char *path, weft__data_files *out);
void weft__data_files_free(weft__data_files *files);

/* All of standard input; the caller frees *data. */
weft_status weft__data_read_stdin(char **data, size_t *size);

#endif
