/* Loaded before libc in a worker: counts the calls that change files, over all threads, and at a
 * chosen one kills the process, tears the write, or says that the disk is full.
 *
 *   UNSPENT_FAULT=kill:7    SIGKILL instead of the 7th call
 *   UNSPENT_FAULT=torn:7    the 7th of the calls that write bytes writes half of them; then SIGKILL
 *   UNSPENT_FAULT=once:7    the 7th call fails with ENOSPC
 *   UNSPENT_FAULT=full:7    the 7th and every later call that needs space fails with ENOSPC
 *
 * UNSPENT_FAULT_COUNT names a file that gets the number of calls when the process ends by itself.
 *
 * Calls on anything outside the folder UNSPENT_FAULT_UNDER are not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_long calls;
static enum { NONE, KILL, TORN, ONCE, FULL } fault;
static long chosen;
static const char *under;

__attribute__((constructor)) static void begin(void) {
    const char *how = getenv("UNSPENT_FAULT");
    under = getenv("UNSPENT_FAULT_UNDER");
    if (!how || !under) return;
    if (!strncmp(how, "kill:", 5)) fault = KILL;
    if (!strncmp(how, "torn:", 5)) fault = TORN;
    if (!strncmp(how, "once:", 5)) fault = ONCE;
    if (!strncmp(how, "full:", 5)) fault = FULL;
    chosen = atol(strchr(how, ':') + 1);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("UNSPENT_FAULT_COUNT");
    if (!path) return;
    FILE *out = fopen(path, "w");
    if (!out) return;
    fprintf(out, "%ld\n", atomic_load(&calls));
    fclose(out);
}

static int ours_path(const char *path) {
    return under && !strncmp(path, under, strlen(under));
}

static int ours(int fd) {
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return ours_path(path);
}

enum kind { OTHER, SPACE, BYTES };
enum verdict { GO_ON, TEAR, FAIL };

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static enum verdict strike(int counts, enum kind kind) {
    if (!counts || (fault == TORN && kind != BYTES)) return GO_ON;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (fault == FULL) return call >= chosen && kind != OTHER ? FAIL : GO_ON;
    if (call != chosen) return GO_ON;
    if (fault == TORN) return TEAR;
    if (fault == KILL) die();
    return fault == ONCE ? FAIL : GO_ON;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define NO_SPACE (errno = ENOSPC, -1)

ssize_t write(int fd, const void *bytes, size_t count) {
    switch (strike(ours(fd), BYTES)) {
    case TEAR: REAL(write)(fd, bytes, count / 2); die();
    case FAIL: return NO_SPACE;
    case GO_ON: break;
    }
    return REAL(write)(fd, bytes, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    switch (strike(ours(fd), BYTES)) {
    case TEAR: REAL(pwrite64)(fd, bytes, count / 2, at); die();
    case FAIL: return NO_SPACE;
    case GO_ON: break;
    }
    return REAL(pwrite64)(fd, bytes, count, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

/* A full disk also says so when asked. */
int statvfs(const char *path, struct statvfs *answer) {
    int outcome = REAL(statvfs)(path, answer);
    int full = fault == FULL && atomic_load(&calls) >= chosen && ours_path(path);
    if (full) answer->f_bfree = answer->f_bavail = 0;
    return outcome;
}

#define ON_FILE(name, kind, types, values) \
    int name types { return strike(ours(fd), kind) ? NO_SPACE : REAL(name) values; }
#define ON_PATH(name, path, kind, types, values) \
    int name types { return strike(ours_path(path), kind) ? NO_SPACE : REAL(name) values; }

ON_FILE(fsync, OTHER, (int fd), (fd))
ON_FILE(fdatasync, OTHER, (int fd), (fd))
ON_FILE(ftruncate, OTHER, (int fd, off_t length), (fd, length))
ON_FILE(ftruncate64, OTHER, (int fd, off64_t length), (fd, length))
ON_FILE(fallocate, SPACE, (int fd, int mode, off_t at, off_t length), (fd, mode, at, length))
ON_FILE(fallocate64, SPACE, (int fd, int mode, off64_t at, off64_t length), (fd, mode, at, length))
ON_PATH(rename, to, SPACE, (const char *from, const char *to), (from, to))
ON_PATH(unlink, path, OTHER, (const char *path), (path))

/* What does not exist yet needs space too; looking whether it does is no change. */
int mkdir(const char *path, mode_t mode) {
    int creates = ours_path(path) && access(path, F_OK);
    return strike(creates, SPACE) ? NO_SPACE : REAL(mkdir)(path, mode);
}

#define ON_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        __builtin_va_list list; \
        __builtin_va_start(list, flags); \
        mode_t mode = flags & O_CREAT ? __builtin_va_arg(list, mode_t) : 0; \
        __builtin_va_end(list); \
        int creates = flags & O_CREAT && ours_path(path) && access(path, F_OK); \
        return strike(creates, SPACE) ? NO_SPACE : REAL(name)(path, flags, mode); \
    }
ON_OPEN(open)
ON_OPEN(open64)
