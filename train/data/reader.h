/* train/data/reader.h -- internal interface for reading rows and converting them to samples. */
#ifndef WEFT_TRAIN_DATASET_READER_H
#define WEFT_TRAIN_DATASET_READER_H

#include "core/io/data_names.h"
#include "core/io/json.h"
#include "train/columns.h"
#include "train/data/builder.h"
#include "train/data/cache.h"
#include "train/data/dataset.h"
#include "train/data/members.h"

/* Occurrences of an event: their number, and the first locations as text. */
typedef struct weft__places {
    int64_t n;
    char text[320];
} weft__places;

/* State for reading the rows of a source. */
typedef struct weft__reader {
    const char *source; /* for messages about the whole source */
    const char *path;   /* the current file */
    const char *where;  /* for messages: the path, or path:line */
    const weft_tokenizer *tokenizer;
    weft_dataset_options o; /* eos points to the next field */
    int32_t eos;            /* below 0: none */
    int32_t *prefix;        /* ids that the tokenizer adds before a text */
    size_t n_prefix;
    weft__builder sample;
    weft_dataset *rows; /* samples of the rows read so far */
    int64_t n_rows, n_bad;
    weft__places longer, empty, empty_answers;
    weft__unused unused;
    weft__said *said;
    int64_t number; /* of the current line or row, from 1 */
    int64_t files[WEFT_DATA_FORMATS];
    const char *expected; /* for messages: which rows, where files that are one text are refused */
    /* What happens to each row, whose name is its location, and to a file that is one text. */
    weft_status (*add_row)(struct weft__reader *r, const weft__json *row);
    weft_status (*add_text)(struct weft__reader *r, const char *text, size_t n);
    void *context; /* of these */
} weft__reader;

/* Empties the builder and adds the ids of a text. `first` adds the prefix before them, unless the
 * text already begins with it. */
weft_status weft__reader_begin(weft__reader *r, const char *text, size_t length, bool first,
                               float weight);

/* Converts a row to samples in r->rows: the add_row of training data. train/data/row.c */
weft_status weft__reader_add_row(weft__reader *r, const weft__json *row);

/* Gives a row without a system text that of the options, as the member "system". */
weft_status weft__reader_add_system(const weft__reader *r, const weft__data_row *row, bool *added);

/* Takes the row's array of messages, with its system prompt. In tables it is a string, which is
 * parsed into *doc; the caller frees that. */
weft_status weft__data_row_take_list(weft__data_row *row, weft__json *list, weft__json_doc *doc);

/* Adds a sample from a prompt and its completion, which are texts or arrays of messages. */
weft_status weft__reader_add_completion(weft__reader *r, weft__data_row *row,
                                        const weft__json *prompt, const weft__json *completion);

/* Makes the prompt of a row from its prompt, context, history and system prompt: a text, or an
 * array of messages if `spoken`, if the model has a chat template and the row is more than a text
 * to be continued ("prompt" alone), and if the prompt is an array. The caller frees *out. Only
 * earlier turns of the assistant in single examples are trained. train/data/prompt.c */
weft_status weft__reader_prompt(weft__reader *r, weft__data_row *row, bool spoken,
                                json_object **out);

/* The completion to a prompt: after messages, a text is a message of the assistant. The caller
 * frees *out. */
weft_status weft__reader_answer(const weft__data_row *row, json_object *prompt,
                                const weft__json *answer, json_object **out);

/* Puts the row's system prompt before the messages, unless one of them is a system message. */
weft_status weft__data_row_add_system(weft__data_row *row, json_object *list);

/* A message, and copies of messages [begin, end); not trained: with weight 0. The caller frees
 * them. NULL: out of memory. */
json_object *weft__message_new(const char *role, const char *content, size_t n);
json_object *weft__messages_copy(json_object *list, size_t begin, size_t end, bool trained);
/* Takes ownership of the message. False: out of memory, also if one of both is NULL. */
bool weft__messages_append(json_object *list, json_object *message);
/* The member "role", or "from". NULL if there is none. */
const char *weft__message_role(json_object *message);

/* Adds the pair of a row with "chosen" and "rejected". If the options request labeled samples,
 * adds two labeled samples. train/data/preference.c */
weft_status weft__reader_add_preference(weft__reader *r, weft__data_row *row);

/* Adds the counts of a dataset with the samples of a row that has been added. */
void weft__reader_add_counts(weft__reader *r, const weft_dataset *made, bool added);

/* Adds a text with its label, one of the options' labels. train/data/classified.c */
weft_status weft__reader_add_classified(weft__reader *r, weft__data_row *row);

/* Adds the texts of a row that are to be compared, as one example. train/data/compared.c */
weft_status weft__reader_add_compared(weft__reader *r, const weft__json *row);

/* The texts of such a row, which has no score; and the text of a row with one. */
weft_status weft__compared_texts(weft__reader *r, const weft__json *row,
                                 weft__json out[WEFT__MOST_TEXTS], int *n);
weft_status weft__document_text(const weft__json *row, weft__json *out);

/* Parses a string member that contains an array of messages, and replaces it by the array.
 * WEFT_INVALID if the array is malformed. train/data/cells.c */
weft_status weft__reader_unpack(const weft__json *row, const char *key);

/* Reads a label: true, false, 1 or 0, or one of these as a string. */
weft_status weft__reader_label(const weft__json *at, bool *out);

/* Reads the files of a source. train/data/read.c */
weft_status weft__reader_add_files(weft__reader *r, const weft_data_source *source);
/* Reads the bytes of the file r->path, which may be compressed. */
weft_status weft__reader_add_bytes(weft__reader *r, const char *data, size_t size);

/* Reads the rows of a file in one of the formats, as in weft__read_jsonl; r->path is its name. Up
 * to max_bad_rows bad rows are skipped. */
#define DECLARE(ID, word, ...)                                                                     \
    weft_status weft__read_##word(weft__reader *r, const char *data, size_t size);
WEFT__DATA_FORMATS(DECLARE)
#undef DECLARE
/* Reads compressed JSON lines: one line is in memory at a time. */
weft_status weft__reader_add_lines(weft__reader *r, weft__codec codec, const char *data,
                                   size_t size);

/* Must be called after each row, with its location `where` and its `status`. Records locations of
 * long and empty samples since `before`, and returns WEFT_OK for a bad row if max_bad_rows permits
 * it. */
weft_status weft__reader_row_done(weft__reader *r, const char *where, weft_status status,
                                  const weft_dataset_info *before);

/* The data files of a source, in order: those that it lists, or of its path the file itself, the
 * files in a folder, or those that match a pattern. WEFT_IO if there is none. train/data/files.c */
typedef struct weft__data_files {
    char **at;
    int n;
} weft__data_files;

weft_status weft__data_files_find(const weft_data_source *source, weft__data_files *out);
void weft__data_files_free(weft__data_files *files);

/* Skips a UTF-8 byte order mark. */
void weft__data_skip_mark(const char **data, size_t *size);

/* Decompresses a whole file. The caller frees *out. WEFT_INVALID for more than 2 GiB. */
weft_status weft__data_decompress(const char *path, weft__codec codec, const char *data,
                                  size_t size, char **out, size_t *n);

/* Reads all of standard input. The caller frees *data. */
weft_status weft__data_read_stdin(char **data, size_t *size);

#endif
