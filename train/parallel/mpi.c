/* train/parallel/mpi.c -- groups over MPI: the module weft-mpi.so. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#include "train/parallel/mpi.h"
#include "weft/version.h"

/* Maximum number of values that a rank sends or receives at a time. */
enum { PIECE = 1 << 20 };

/* A process has one group, since MPI has one world. */
static struct {
    const weft__mpi_host *host;
    MPI_Comm all;
    int rank, size;
    bool one_machine;     /* all ranks are on it, and may share memory */
    bool own;             /* MPI was initialized here */
    float *buffer;        /* (2, PIECE): sent, received */
    int *counts;          /* (4, size): of pieces */
    float *values;        /* of own_values */
    const float **shared; /* (size): the values of all ranks; NULL: they are not shared */
    size_t bytes;         /* of the values of a rank */
} mpi;

static weft_status mpi_failure(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return mpi.host->fail(WEFT_IO, "mpi: %s: %s", what, mpi.host->printable(text));
}

/* ---- communication -------------------------------------------------------------------------- */

/* Waits for a started operation. MPI's own calls use a core while they wait, so after a short time
 * this sleeps between the tests: a rank may wait for another one that validates or saves. */
static int wait_for(int code, MPI_Request *request)
{
    enum { EAGER_MS = 20, PAUSE_US = 500 };
    const double start = MPI_Wtime();
    int done = 0;
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done && MPI_Wtime() - start > EAGER_MS * 1e-3)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000L}, NULL);
    }
    return code;
}

static weft_status gather(void *context, const void *bytes, size_t n, void *out)
{
    (void)context;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Iallgather(bytes, (int)n, MPI_BYTE, out, (int)n, MPI_BYTE, mpi.all, &request);
    code = wait_for(code, &request);
    return code == MPI_SUCCESS ? WEFT_OK : mpi_failure("allgather", code);
}

/* Sends in pieces, since MPI counts are ints. */
static weft_status broadcast(void *context, void *bytes, size_t n)
{
    (void)context;
    enum { MOST = 1 << 30 };
    for (size_t at = 0; at < n; at += MOST) {
        const int now = (int)(n - at < MOST ? n - at : MOST);
        MPI_Request request = MPI_REQUEST_NULL;
        int code = MPI_Ibcast((char *)bytes + at, now, MPI_BYTE, 0, mpi.all, &request);
        code = wait_for(code, &request);
        if (code != MPI_SUCCESS)
            return mpi_failure("broadcast", code);
    }
    return WEFT_OK;
}

static int64_t begin_of(const int64_t *ends, int rank)
{
    return rank > 0 ? ends[rank - 1] : 0;
}

/* The piece of each rank's values that begins with value `at`: its size, and where it is in a
 * buffer that has those of all ranks. */
typedef struct pieces {
    int *counts, *places;
} pieces;

static int64_t longest(const int64_t *ends)
{
    int64_t most = 0;
    for (int r = 0; r < mpi.size; r++) {
        const int64_t n = ends[r] - begin_of(ends, r);
        most = n > most ? n : most;
    }
    return most;
}

static pieces pieces_at(const int64_t *ends, int64_t at)
{
    const int64_t most = PIECE / mpi.size;
    const pieces p = {mpi.counts, mpi.counts + mpi.size};
    int total = 0;
    for (int r = 0; r < mpi.size; r++, total += p.counts[r - 1]) {
        const int64_t left = ends[r] - begin_of(ends, r) - at;
        p.counts[r] = (int)(left < 0 ? 0 : left < most ? left : most);
        p.places[r] = total;
    }
    return p;
}

/* Sums in rank order; MPI's reductions may add in any order. */
static int reduce_piece(float *values, const int64_t *ends, int64_t at)
{
    const pieces p = pieces_at(ends, at);
    const int own = p.counts[mpi.rank];
    pieces from = {p.places + mpi.size, p.places + 2 * (size_t)mpi.size};
    float *sent = mpi.buffer, *received = sent + PIECE, *sums = values + begin_of(ends, mpi.rank);
    for (int r = 0; r < mpi.size; r++) {
        from.counts[r] = own;
        from.places[r] = own * r;
        if (p.counts[r] > 0)
            memcpy(sent + p.places[r], values + begin_of(ends, r) + at,
                   (size_t)p.counts[r] * sizeof *sent);
    }
    const int code = MPI_Alltoallv(sent, p.counts, p.places, MPI_FLOAT, received, from.counts,
                                   from.places, MPI_FLOAT, mpi.all);
    for (int r = 0; code == MPI_SUCCESS && r < mpi.size; r++) {
        for (int i = 0; i < own; i++)
            sums[at + i] = r == 0 ? received[i] : sums[at + i] + received[r * own + i];
    }
    return code;
}

static int gather_piece(float *values, const int64_t *ends, int64_t at)
{
    const pieces p = pieces_at(ends, at);
    float *received = mpi.buffer;
    const int own = p.counts[mpi.rank];
    const int64_t from = own > 0 ? begin_of(ends, mpi.rank) + at : 0;
    const int code = MPI_Allgatherv(values + from, own, MPI_FLOAT, received, p.counts, p.places,
                                    MPI_FLOAT, mpi.all);
    for (int r = 0; code == MPI_SUCCESS && r < mpi.size; r++) {
        if (r != mpi.rank && p.counts[r] > 0)
            memcpy(values + begin_of(ends, r) + at, received + p.places[r],
                   (size_t)p.counts[r] * sizeof *values);
    }
    return code;
}

/* ---- shared values -------------------------------------------------------------------------- */

/* On one machine, the values of each rank are a file in memory, which the others open below /proc.
 * A sum then exchanges barriers only. */

static int meet(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = wait_for(MPI_Ibarrier(mpi.all, &request), &request);
    atomic_thread_fence(memory_order_seq_cst);
    return code;
}

/* True if it is true on every rank. */
static int agree(bool *all)
{
    int own = *all, least = 0;
    const int code = MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, mpi.all);
    *all = least;
    return code;
}

static void free_values(void)
{
    for (int r = 0; mpi.shared && r < mpi.size; r++) {
        if (mpi.shared[r] && r != mpi.rank)
            munmap((void *)(uintptr_t)mpi.shared[r], mpi.bytes);
    }
    if (mpi.shared && mpi.values)
        munmap(mpi.values, mpi.bytes);
    else
        mpi.host->release(mpi.values);
    mpi.host->release(mpi.shared);
    mpi.values = NULL;
    mpi.shared = NULL;
}

/* What a rank tells the others of its values. */
typedef struct offer {
    int64_t process, file, mark; /* the mark is what the values begin with */
} offer;

/* Maps the values of another rank, or returns NULL. If that rank has another /proc, the path may
 * name an unrelated file, hence the checks. */
static const float *map_theirs(const offer *theirs)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)theirs->process,
             (long long)theirs->file);
    const int file =
        theirs->file < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return NULL;
    void *at = MAP_FAILED;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == (off_t)mpi.bytes)
        at = mmap(NULL, mpi.bytes, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED && memcmp(at, &theirs->mark, sizeof theirs->mark) != 0) {
        munmap(at, mpi.bytes);
        at = MAP_FAILED;
    }
    return at == MAP_FAILED ? NULL : at;
}

/* Makes the values shared, on all ranks or none. */
static int share_values(void)
{
    offer own = {getpid(), -1, (int64_t)(MPI_Wtime() * 1e6) * 1024 + mpi.rank};
    offer *all = mpi.host->allocate((size_t)mpi.size, sizeof *all);
    mpi.shared = mpi.host->allocate((size_t)mpi.size, sizeof *mpi.shared);
    const int file = memfd_create("weft-values", MFD_CLOEXEC);
    if (all && mpi.shared && file >= 0 && posix_fallocate(file, 0, (off_t)mpi.bytes) == 0) {
        void *at = mmap(NULL, mpi.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        mpi.values = at == MAP_FAILED ? NULL : at;
    }
    bool is_shared = mpi.values != NULL;
    if (is_shared) {
        own.file = file;
        memcpy(mpi.values, &own.mark, sizeof own.mark);
    }
    int code = agree(&is_shared);
    if (code == MPI_SUCCESS && is_shared) {
        code = MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, mpi.all);
        for (int r = 0; code == MPI_SUCCESS && r < mpi.size; r++) {
            mpi.shared[r] = r == mpi.rank ? mpi.values : map_theirs(&all[r]);
            is_shared = is_shared && mpi.shared[r];
        }
        if (code == MPI_SUCCESS)
            code = agree(&is_shared);
    }
    if (file >= 0)
        close(file);
    mpi.host->release(all);
    if (!is_shared)
        free_values();
    return code;
}

static weft_status own_values(void *context, int64_t n, float **out)
{
    enum { LEAST = 1024 }; /* values: more than a mark */
    (void)context;
    free_values();
    *out = NULL;
    if (n == 0)
        return WEFT_OK;
    mpi.bytes = (size_t)(n > LEAST ? n : LEAST) * sizeof(float);
    int code = mpi.one_machine ? share_values() : MPI_SUCCESS;
    if (code == MPI_SUCCESS && mpi.shared == NULL)
        mpi.values = mpi.host->allocate(mpi.bytes / sizeof(float), sizeof(float));
    if (code != MPI_SUCCESS)
        return mpi_failure("allgather", code);
    *out = mpi.values;
    return mpi.values ? WEFT_OK : mpi.host->fail(WEFT_MEMORY, "mpi: out of memory for values");
}

static int reduce_shared(const int64_t *ends)
{
    enum { BLOCK = 2048 };
    float sums[BLOCK];
    int code = meet();
    const int64_t end = ends[mpi.rank];
    for (int64_t at = begin_of(ends, mpi.rank), now; code == MPI_SUCCESS && at < end; at += now) {
        now = end - at < BLOCK ? end - at : BLOCK;
        memcpy(sums, mpi.shared[0] + at, (size_t)now * sizeof *sums);
        for (int r = 1; r < mpi.size; r++) {
            const float *theirs = mpi.shared[r] + at;
            for (int64_t i = 0; i < now; i++)
                sums[i] += theirs[i];
        }
        memcpy(mpi.values + at, sums, (size_t)now * sizeof *sums);
    }
    return code == MPI_SUCCESS ? meet() : code; /* no rank writes what another one reads */
}

static int gather_shared(const int64_t *ends)
{
    const int code = meet();
    for (int r = 0; code == MPI_SUCCESS && r < mpi.size; r++) {
        const int64_t at = begin_of(ends, r);
        if (r != mpi.rank)
            memcpy(mpi.values + at, mpi.shared[r] + at,
                   (size_t)(ends[r] - at) * sizeof *mpi.values);
    }
    return code == MPI_SUCCESS ? meet() : code;
}

static weft_status move(float *values, const int64_t *ends, int (*shared)(const int64_t *ends),
                        int (*piece)(float *values, const int64_t *ends, int64_t at))
{
    int code = MPI_SUCCESS;
    if (mpi.shared && values == mpi.values)
        code = shared(ends);
    else
        for (int64_t at = 0; code == MPI_SUCCESS && at < longest(ends); at += PIECE / mpi.size)
            code = piece(values, ends, at);
    return code == MPI_SUCCESS ? WEFT_OK : mpi_failure("exchange", code);
}

static weft_status reduce_scatter(void *context, float *values, const int64_t *ends)
{
    (void)context;
    return move(values, ends, reduce_shared, reduce_piece);
}

static weft_status all_gather(void *context, float *values, const int64_t *ends)
{
    (void)context;
    return move(values, ends, gather_shared, gather_piece);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* If the connection is broken, other ranks may wait forever, so they are aborted too. */
static void close_mpi(void *context, bool broken)
{
    (void)context;
    if (broken)
        MPI_Abort(mpi.all, EXIT_FAILURE);
    /* a launcher kills the other processes if one exits with a failure */
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(mpi.all, &request);
    (void)wait_for(code, &request);
    free_values();
    mpi.host->release(mpi.buffer);
    mpi.host->release(mpi.counts);
    mpi.buffer = NULL;
    mpi.counts = NULL;
    MPI_Comm_free(&mpi.all);
    if (mpi.own)
        MPI_Finalize();
}

static const weft_group_type weft_group_mpi = {
    .name = "mpi",
    .gather = gather,
    .broadcast = broadcast,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .values = own_values,
    .close = close_mpi,
};

static int find_place(weft_group_info *place)
{
    MPI_Comm local;
    int code = MPI_Comm_split_type(mpi.all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_rank(local, &place->local_rank);
    MPI_Comm_size(local, &place->local_size);
    MPI_Comm_rank(mpi.all, &place->rank);
    MPI_Comm_size(mpi.all, &place->size);
    const char *shares = getenv("WEFT_MPI_SHARED");
    mpi.one_machine = place->local_size == place->size && !(shares && strcmp(shares, "0") == 0);
    mpi.rank = place->rank;
    mpi.size = place->size;
    return MPI_Comm_free(&local);
}

static weft_status connect_mpi(const weft__mpi_host *host, const char *variable, long launched,
                               const weft_group_type **type, weft_group_info *place)
{
    int running = 0, level;
    mpi.host = host;
    MPI_Initialized(&running);
    mpi.own = !running;
    int code = running ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.all);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(mpi.all, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = find_place(place);
    if (code != MPI_SUCCESS)
        return mpi_failure("start", code);
    if (mpi.size != launched) {
        close_mpi(NULL, false);
        return host->fail(WEFT_INVALID,
                          "mpi: %s is %ld, but MPI has %d processes: this launcher is of another "
                          "MPI than the one that Weft was built with",
                          variable, launched, mpi.size);
    }
    mpi.buffer = host->allocate(2, PIECE * sizeof *mpi.buffer);
    mpi.counts = host->allocate(4, (size_t)mpi.size * sizeof *mpi.counts);
    *type = &weft_group_mpi;
    return mpi.buffer && mpi.counts ? WEFT_OK
                                    : host->fail(WEFT_MEMORY, "mpi: out of memory for its buffers");
}

extern const weft__mpi_module weft_mpi_module;
__attribute__((visibility("default"))) const weft__mpi_module weft_mpi_module = {
    .version = WEFT_VERSION,
    .connect = connect_mpi,
};
