/* serve/teach.h -- uploaded files and fine-tuning jobs: their records, in memory and in the state
 * folder.
 *
 * A record is {"id", "created_at", "number", "object": as clients see it}, saved as
 * FOLDER/ID.json; that of a job also has "words", the options of weft train without paths,
 * "events", "base", the identity of the model, "deaths", how often the process has ended since its
 * last checkpoint, and "deleted" and "unloaded", what has become of its model. The state folder is
 *
 *     files/ID.json, files/ID.jsonl    uploaded files
 *     jobs/ID.json                     jobs
 *     runs/ID/                         their run folders, as weft train makes them
 */
#ifndef SERVE_TEACH_H
#define SERVE_TEACH_H

#include "serve/server.h"

enum {
    SERVE_RECORDS = 1000, /* the most of each kind */
    SERVE_PAGE = 1000,    /* the most values of a page of answers */
    SERVE_ID = 64         /* room for an id */
};

typedef struct serve_records {
    char *folder;
    json_object *list; /* oldest first */
} serve_records;

struct serve_teacher {
    serve_server *server;
    int lock_file; /* locked, so that one server uses the folder */
    char *runs;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t disk; /* while records are written and removed; taken before `lock` */
    pthread_mutex_t lock; /* of all below; nobody who holds it waits for a disk */
    pthread_cond_t changed;
    serve_records files, jobs;
    json_object *current; /* the job in progress */
    weft_cancel *cancel;  /* of it */
    bool stopping;
};

/* ---- state.c -------------------------------------------------------------------------------- */

/* Creates a folder, which may be there. WEFT_INVALID for a link. */
weft_status serve_make_folder(const char *path);
weft_status serve_records_open(const char *root, const char *name, serve_records *out);
void serve_records_close(serve_records *records);
/* The record of an id; NULL: none. The lock is held. */
json_object *serve_record_find(const serve_records *records, const char *id);
/* Parses a record that serve_put has written, which is freed. NULL: out of memory. */
json_object *serve_record_make(serve_text *text);
/* Saves a new record, which is taken over, and lists it. `disk` is held, and `lock` is not. */
weft_status serve_record_add(serve_teacher *teacher, serve_records *records, json_object *record);
/* Removes it from the list and the folder. `disk` is held, and `lock` is not. */
weft_status serve_record_remove(serve_teacher *teacher, serve_records *records, const char *id);
/* Saves a record as it is now. After a failure it is saved again with the next one, or by
 * serve_records_flush. Neither lock is held. */
weft_status serve_record_store(serve_teacher *teacher, const serve_records *records,
                               const char *id);
void serve_records_flush(serve_teacher *teacher, const serve_records *records);
/* Sets a flag of a record and saves it if that is a change; after a failure the flag is as before.
 * `disk` is held, and `lock` is not. */
weft_status serve_record_mark(serve_teacher *teacher, const serve_records *records, const char *id,
                              const char *key, bool value);
const char *serve_record_text(json_object *record, const char *key); /* of its object; or NULL */
const char *serve_record_id(json_object *record);
int64_t serve_record_number(json_object *record, const char *key);
void serve_record_set(json_object *record, const char *key, int64_t value);
/* Removes a folder and what is in it; one that is not there is no failure. */
void serve_remove_folder(const char *path);

/* WEFT_UNSUPPORTED without a state folder. */
weft_status serve_teacher_check(const serve_request *request);
/* Answers with the object of a record, or that there is no such record of this kind. The lock is
 * not held. */
weft_status serve_reply_record(serve_request *request, const serve_records *records,
                               const char *what, const char *id);
/* Answers with a page of values, oldest first, as the query asks, newest first. Takes it over. */
weft_status serve_reply_page(serve_request *request, json_object *values);
/* The most values of the page that the query asks for. */
weft_status serve_read_limit(const serve_request *request, size_t *out);
/* Answers that the object of a record was deleted. */
void serve_reply_deleted(serve_request *request, const char *id, const char *kind);
/* The objects of a list of records. */
json_object *serve_record_objects(const serve_records *records);
/* Refuses a request for a record that is not there. */
weft_status serve_refuse_unknown(serve_request *request, const char *what, const char *id);

/* ---- files.c -------------------------------------------------------------------------------- */

/* The path of a file's data, which the caller frees. */
char *serve_file_path(const serve_teacher *teacher, const char *id);

/* ---- job_request.c -------------------------------------------------------------------------- */

/* What a request for a job asks for; its strings belong to the request's body. */
typedef struct serve_job_request {
    const char *training, *validation, *suffix;
    int64_t seed;
    json_object *settings, *metadata;       /* settings: the method's hyperparameters */
    const char *kind;                       /* of the method */
    double epochs, batch, multiplier, beta; /* NaN: auto */
    json_object *words;                     /* owned */
} serve_job_request;

/* Reads the body; the caller frees out->words, also after a failure. */
weft_status serve_read_job(serve_request *request, serve_job_request *out);
/* Writes the record of a job that was created just now. */
void serve_put_job(serve_text *text, const serve_request *request, const serve_job_request *q,
                   const char *id);

/* ---- jobs.c --------------------------------------------------------------------------------- */

/* Adds an event to a job's record, which was made `step` updates after its beginning. */
void serve_job_log(json_object *record, const char *level, int64_t step, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* Sets the state of a job, also its error and its end. */
void serve_job_set(json_object *record, const char *status);
bool serve_job_is(json_object *record, const char *status);
bool serve_job_has_ended(json_object *record);
/* The model that a job has trained, unless it was deleted; or NULL. */
const char *serve_job_model(json_object *record);
/* Makes a job fail; `param`: the file that is wrong, or NULL. */
void serve_job_fail(json_object *record, const char *code, const char *message, const char *param);
/* The id of the job that has trained a model, and has not been deleted; false: none. Takes the
 * lock. */
bool serve_job_of_model(serve_teacher *teacher, const char *model, char id[SERVE_ID]);
/* The folder of a job's run, which the caller frees. */
char *serve_job_folder(const serve_teacher *teacher, const char *id);

/* ---- teach.c -------------------------------------------------------------------------------- */

/* Sets *path, which the caller frees, to the adapter that a job has trained: the best one of a run
 * with validation, else the last one. WEFT_INVALID if it is of another model than the server's. */
weft_status serve_job_adapter(serve_teacher *teacher, const char *id, char **path);

/* ---- events.c ------------------------------------------------------------------------------- */

/* The events of a job, oldest first, as far as a page of `most` after the event of an id needs them
 * (NULL: the newest): those of its record, and one for each line of its metrics. The record is a
 * copy, and no lock is held. */
json_object *serve_job_events(const char *folder, json_object *record, const char *after,
                              size_t most);

#endif
