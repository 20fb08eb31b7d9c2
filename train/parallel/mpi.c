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

/* Maximum number of values in one sum. */
enum { PIECE = 1 << 20 };

/* A process has one group, since MPI has one world. */
static struct {
    const weft__mpi_host *host;
    MPI_Comm all;
    int rank, size;
    bool one_machine;     /* all ranks are on it, and may share memory */
    bool own;             /* MPI was initialized here */
    float *buffer;        /* (3, padded piece): sent, received, sums of this rank's part */
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

/* Sums in rank order; MPI_Allreduce may add in any order. Each rank sums one part of the values
 * over all ranks and sends it to all. */
static int sum_piece(float *values, int n)
{
    const int part = (n + mpi.size - 1) / mpi.size, padded = part * mpi.size;
    float *sent = mpi.buffer, *received = sent + PIECE + mpi.size,
          *sums = received + PIECE + mpi.size;
    memcpy(sent, values, (size_t)n * sizeof *sent);
    memset(sent + n, 0, (size_t)(padded - n) * sizeof *sent);
    int code = MPI_Alltoall(sent, part, MPI_FLOAT, received, part, MPI_FLOAT, mpi.all);
    if (code != MPI_SUCCESS)
        return code;
    memcpy(sums, received, (size_t)part * sizeof *sums);
    for (int r = 1; r < mpi.size; r++) {
        for (int i = 0; i < part; i++)
            sums[i] += received[r * part + i];
    }
    code = MPI_Allgather(sums, part, MPI_FLOAT, sent, part, MPI_FLOAT, mpi.all);
    memcpy(values, sent, (size_t)n * sizeof *sent);
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

/* The end of the values that a rank sums. */
static int64_t part_end(int rank, int64_t n)
{
    enum { LINE = 16 }; /* no two ranks write one line of a processor's cache */
    const int64_t part = (n / mpi.size / LINE + 1) * LINE, end = part * (rank + 1);
    return end < n ? end : n;
}

/* Each rank sums one part and takes the other parts from the others. */
static int sum_shared(int64_t n)
{
    enum { BLOCK = 2048 };
    float sums[BLOCK];
    int code = meet();
    const int64_t end = part_end(mpi.rank, n);
    for (int64_t at = part_end(mpi.rank - 1, n), now; code == MPI_SUCCESS && at < end; at += now) {
        now = end - at < BLOCK ? end - at : BLOCK;
        memcpy(sums, mpi.shared[0] + at, (size_t)now * sizeof *sums);
        for (int r = 1; r < mpi.size; r++) {
            const float *theirs = mpi.shared[r] + at;
            for (int64_t i = 0; i < now; i++)
                sums[i] += theirs[i];
        }
        memcpy(mpi.values + at, sums, (size_t)now * sizeof *sums);
    }
    if (code == MPI_SUCCESS)
        code = meet();
    for (int r = 0; code == MPI_SUCCESS && r < mpi.size; r++) {
        const int64_t at = part_end(r - 1, n);
        if (r != mpi.rank)
            memcpy(mpi.values + at, mpi.shared[r] + at,
                   (size_t)(part_end(r, n) - at) * sizeof *mpi.values);
    }
    return code == MPI_SUCCESS ? meet() : code; /* no rank writes what another one reads */
}

static weft_status sum(void *context, float *values, int64_t n)
{
    (void)context;
    if (mpi.shared && values == mpi.values) {
        const int code = sum_shared(n);
        return code == MPI_SUCCESS ? WEFT_OK : mpi_failure("sum", code);
    }
    for (int64_t at = 0; at < n; at += PIECE) {
        const int code = sum_piece(values + at, (int)(n - at < PIECE ? n - at : PIECE));
        if (code != MPI_SUCCESS)
            return mpi_failure("sum", code);
    }
    return WEFT_OK;
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
    mpi.buffer = NULL;
    MPI_Comm_free(&mpi.all);
    if (mpi.own)
        MPI_Finalize();
}

static const weft_group_type weft_group_mpi = {
    .name = "mpi",
    .gather = gather,
    .broadcast = broadcast,
    .sum = sum,
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
    mpi.buffer = host->allocate(3, (PIECE + (size_t)mpi.size) * sizeof *mpi.buffer);
    *type = &weft_group_mpi;
    return mpi.buffer ? WEFT_OK : host->fail(WEFT_MEMORY, "mpi: out of memory for its buffers");
}

extern const weft__mpi_module weft_mpi_module;
__attribute__((visibility("default"))) const weft__mpi_module weft_mpi_module = {
    .version = WEFT_VERSION,
    .connect = connect_mpi,
};
