/* serve/teach.h -- uploaded files and fine-tuning jobs: their records, in memory and in the state
 * folder.
 *
 * A record is {"id", "created_at", "object": as clients see it}, saved as FOLDER/ID.json; that of a
 * job also has "words", the options of weft train, and "events". The folder is
 *
 *     files/ID.json, files/ID.jsonl    uploaded files
 *     jobs/ID.json                     jobs
 *     runs/ID/                         their run folders, as weft train makes them
 */
#ifndef SERVE_TEACH_H
#define SERVE_TEACH_H

#include "serve/server.h"

enum { SERVE_RECORDS = 1000 }; /* the most of each kind */

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
    pthread_mutex_t lock; /* of all below */
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
/* The record of an id; NULL: none. The lock is held, as for all below. */
json_object *serve_record_find(const serve_records *records, const char *id);
/* Adds a record that serve_put has written, which is freed, and saves it. */
weft_status serve_record_add(serve_records *records, serve_text *text, json_object **out);
weft_status serve_record_save(const serve_records *records, json_object *record);
/* Removes it from the list and the folder. */
void serve_record_remove(serve_records *records, json_object *record);
const char *serve_record_text(json_object *record, const char *key); /* of its object; or NULL */
const char *serve_record_id(json_object *record);

/* The teacher, locked; WEFT_UNSUPPORTED without a state folder. */
weft_status serve_teacher_lock(serve_request *request, serve_teacher **out);
/* Answers with the object of a record. */
weft_status serve_reply_record(serve_request *request, json_object *record);
/* Answers with a page of values, oldest first, as the query asks, newest first. Takes it over. */
weft_status serve_reply_page(serve_request *request, json_object *values);
/* The objects of a list of records. */
json_object *serve_record_objects(const serve_records *records);
/* Refuses a request for a record that is not there. */
weft_status serve_refuse_unknown(serve_request *request, const char *what, const char *id);

/* ---- files.c -------------------------------------------------------------------------------- */

/* The path of a file's data, which the caller frees. */
char *serve_file_path(const serve_teacher *teacher, const char *id);

/* ---- jobs.c --------------------------------------------------------------------------------- */

/* Adds an event to a job's record, which was made `step` updates after its beginning. */
void serve_job_log(json_object *record, const char *level, int64_t step, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* Sets the state of a job, also its error and its end. */
void serve_job_set(json_object *record, const char *status);
bool serve_job_is(json_object *record, const char *status);

/* ---- events.c ------------------------------------------------------------------------------- */

/* The events of a job, oldest first: those of its record, and one for each line of its metrics. */
json_object *serve_job_events(const serve_teacher *teacher, json_object *record);

#endif
