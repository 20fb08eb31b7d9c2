/* tests/cli/offline.c -- runs a program that the kernel kills when it opens an internet socket, for
 * test_cli_offline: COMMAND... Exits with 77 where the system permits no such filter. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NOT_PERMITTED = 77 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))

int main(int argc, char **argv)
{
    static struct sock_filter filter[] = {
        LOAD(nr),
        SKIP_UNLESS(SYS_socket, 5),
        LOAD(args[0]), /* the lower half, on little-endian machines */
        SKIP_UNLESS(AF_INET, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        SKIP_UNLESS(AF_INET6, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "offline: %s\n", strerror(errno));
        return NOT_PERMITTED;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "offline: %s: %s\n", argv[1], strerror(errno));
    return 1;
}
