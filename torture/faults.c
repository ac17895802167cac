/* Counts the operations on files under a folder, and lets one of them fail or kill the process.

   Loaded with LD_PRELOAD. Nothing happens before faults_arm is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { COUNT, KILL_BEFORE, KILL_AFTER, SHORT_WRITE, FAIL_EIO, FAIL_ENOSPC, LOSE_UNSYNCED, UNDO_RENAMES };
#define FILES 65536

static char root[PATH_MAX];
static size_t root_size;
static int mode;
static long at;
static atomic_long done;
static char ours[FILES];          /* descriptor -> is the file under the root? */
static long long synced[FILES];   /* its size when it was last flushed, or -1 */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void faults_arm(const char *folder, int how, long when) {
    strncpy(root, folder, sizeof root - 1);
    root_size = strlen(root);
    mode = how;
    at = when;
    done = 0;
}

long faults_done(void) { return done; }

static int under(int folder, const char *path) {
    char full[2 * PATH_MAX], place[PATH_MAX], link[64];
    if (!root_size || !path) return 0;
    if (path[0] == '/') return !strncmp(path, root, root_size);
    if (folder == AT_FDCWD) {
        if (!getcwd(place, sizeof place)) return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, place, sizeof place - 1);
        if (size < 0) return 0;
        place[size] = 0;
    }
    snprintf(full, sizeof full, "%s/%s", place, path);
    return !strncmp(full, root, root_size);
}

/* Files that were closed before they were flushed. */
#define CLOSED 256
static struct { char path[PATH_MAX]; long long size; } closed[CLOSED];

static int path_of(int file, char *path) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t size = readlink(name, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return 1;
}

static void forget(const char *path) {
    for (int i = 0; i < CLOSED; i++)
        if (!strcmp(closed[i].path, path)) closed[i].path[0] = 0;
}

static void remember(int file) {
    struct stat state;
    char path[PATH_MAX];
    if (fstat(file, &state) || state.st_size == synced[file] || !path_of(file, path)) return;
    forget(path);
    for (int i = 0; i < CLOSED; i++)
        if (!closed[i].path[0]) {
            strcpy(closed[i].path, path);
            closed[i].size = synced[file];
            return;
        }
}

static void renamed(const char *from, const char *to) {
    forget(to);
    for (int i = 0; i < CLOSED; i++)
        if (!strcmp(closed[i].path, from)) strncpy(closed[i].path, to, PATH_MAX - 1);
}

/* Renames and links in folders that were not flushed since. A second link to each file involved keeps it. */
#define UNDONE 1024
static struct { char from[PATH_MAX], to[PATH_MAX]; int moved; } undone[UNDONE];
static int renames;

static void kept_as(char *name, int which, const char *what) {
    snprintf(name, 2 * PATH_MAX, "%s.undo-%d-%s", root, which, what);
}

static void absolute(int folder, const char *path, char *full) {
    char place[PATH_MAX] = "";
    if (path[0] == '/' || (folder == AT_FDCWD ? !getcwd(place, sizeof place) : !path_of(folder, place)))
        snprintf(full, PATH_MAX, "%s", path);
    else
        snprintf(full, PATH_MAX, "%.2000s/%.2000s", place, path);
}

static void note_rename(int a, const char *from, int b, const char *to, int moved) {
    char name[2 * PATH_MAX];
    if (mode != UNDO_RENAMES || renames == UNDONE) return;
    absolute(a, from, undone[renames].from);
    absolute(b, to, undone[renames].to);
    undone[renames].moved = moved;
    kept_as(name, renames, "new");
    REAL(link)(undone[renames].from, name);
    kept_as(name, renames, "old");
    REAL(link)(undone[renames].to, name);
    renames++;
}

static void lasts(const char *folder) {
    size_t size = strlen(folder);
    for (int i = 0; i < renames; i++)
        if (!strncmp(undone[i].to, folder, size) && undone[i].to[size] == '/' && !strchr(undone[i].to + size + 1, '/'))
            undone[i].to[0] = 0;
}

static void undo_renames(void) {
    char old[2 * PATH_MAX], new[2 * PATH_MAX];
    for (int i = renames - 1; i >= 0; i--) {
        if (!undone[i].to[0]) continue;
        kept_as(new, i, "new");
        kept_as(old, i, "old");
        if (!undone[i].moved) {
            REAL(unlink)(undone[i].to);
            continue;
        }
        if (REAL(rename)(undone[i].to, undone[i].from)) REAL(link)(new, undone[i].from);
        REAL(link)(old, undone[i].to);
    }
}

static void die(void) {
    if (mode == LOSE_UNSYNCED || mode == UNDO_RENAMES) {
        for (int file = 0; file < FILES; file++)
            if (ours[file] && synced[file] >= 0) REAL(ftruncate64)(file, synced[file]);
        for (int i = 0; i < CLOSED; i++)
            if (closed[i].path[0]) REAL(truncate64)(closed[i].path, closed[i].size);
    }
    if (mode == UNDO_RENAMES) undo_renames();
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Returns whether the operation fails, with errno set. */
static int step(void) {
    if (++done != at || mode == COUNT) return 0;
    if (mode == KILL_BEFORE || mode == LOSE_UNSYNCED || mode == UNDO_RENAMES) die();
    if (mode == FAIL_EIO || mode == FAIL_ENOSPC) {
        errno = mode == FAIL_EIO ? EIO : ENOSPC;
        return 1;
    }
    return 0;
}

static void after(void) {
    if (done == at && (mode == KILL_AFTER || mode == SHORT_WRITE)) die();
}

#define WRAP(relevant, fail, call)      \
    if (!(relevant)) return call;       \
    if (step()) return fail;            \
    __typeof__(call) result = call;     \
    int kept = errno;                   \
    after();                            \
    errno = kept;                       \
    return result;

static int opened(int file, int is_ours, int flags) {
    if (file >= 0 && file < FILES) {
        struct stat state;
        ours[file] = is_ours && (flags & (O_WRONLY | O_RDWR)) && !fstat(file, &state) && S_ISREG(state.st_mode);
        synced[file] = ours[file] ? (long long)state.st_size : -1;
    }
    return file;
}

static int open_at(int folder, const char *path, int flags, mode_t bits) {
    int is_ours = under(folder, path), writes = is_ours && (flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC));
    if (writes && step()) return -1;
    int file = opened(REAL(openat64)(folder, path, flags, bits), is_ours, flags);
    int kept = errno;
    if (writes) after();
    errno = kept;
    return file;
}

#define BITS                                  \
    mode_t bits = 0;                          \
    if (flags & (O_CREAT | O_TMPFILE)) {      \
        va_list more;                         \
        va_start(more, flags);                \
        bits = va_arg(more, mode_t);          \
        va_end(more);                         \
    }

int open(const char *path, int flags, ...) { BITS return open_at(AT_FDCWD, path, flags, bits); }
int open64(const char *path, int flags, ...) { BITS return open_at(AT_FDCWD, path, flags, bits); }
int openat(int folder, const char *path, int flags, ...) { BITS return open_at(folder, path, flags, bits); }
int openat64(int folder, const char *path, int flags, ...) { BITS return open_at(folder, path, flags, bits); }

static int is_ours(int file) { return file >= 0 && file < FILES && ours[file]; }

ssize_t write(int file, const void *data, size_t size) {
    if (mode == SHORT_WRITE && is_ours(file) && done + 1 == at) size = size / 2;
    WRAP(is_ours(file), -1, REAL(write)(file, data, size))
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    if (mode == SHORT_WRITE && is_ours(file) && done + 1 == at) size = size / 2;
    WRAP(is_ours(file), -1, REAL(pwrite64)(file, data, size, place))
}
ssize_t pwrite(int file, const void *data, size_t size, off_t place) { return pwrite64(file, data, size, place); }

/* All descriptors of a file are flushed with one of them. */
static int flushes(int file) {
    struct stat state, other;
    char path[PATH_MAX];
    if (!root_size || !path_of(file, path) || strncmp(path, root, root_size)) return 0;
    for (int each = 0; each < FILES; each++)
        if (ours[each] && !fstat(file, &state) && !fstat(each, &other) && state.st_ino == other.st_ino)
            synced[each] = state.st_size;
    forget(path);
    lasts(path);
    return 1;
}
int fsync(int file) { WRAP(flushes(file), -1, REAL(fsync)(file)) }
int fdatasync(int file) { WRAP(flushes(file), -1, REAL(fdatasync)(file)) }
int ftruncate64(int file, off64_t size) { WRAP(is_ours(file), -1, REAL(ftruncate64)(file, size)) }
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }
int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
int renameat(int a, const char *from, int b, const char *to) { return renameat2(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    char before[PATH_MAX], after_it[PATH_MAX];
    if (!under(b, to)) return REAL(renameat2)(a, from, b, to, flags);
    if (step()) return -1;
    absolute(a, from, before);
    absolute(b, to, after_it);
    note_rename(a, from, b, to, 1);
    int result = REAL(renameat2)(a, from, b, to, flags), kept = errno;
    if (!result) renamed(before, after_it);
    else if (mode == UNDO_RENAMES && renames) undone[--renames].to[0] = 0;
    after();
    errno = kept;
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    if (!under(b, to)) return REAL(linkat)(a, from, b, to, flags);
    if (step()) return -1;
    int result = REAL(linkat)(a, from, b, to, flags), kept = errno;
    if (!result) note_rename(a, from, b, to, 0);
    after();
    errno = kept;
    return result;
}
int unlink(const char *path) { WRAP(under(AT_FDCWD, path), -1, REAL(unlink)(path)) }
int unlinkat(int folder, const char *path, int flags) { WRAP(under(folder, path), -1, REAL(unlinkat)(folder, path, flags)) }
int rmdir(const char *path) { WRAP(under(AT_FDCWD, path), -1, REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t bits) { WRAP(under(AT_FDCWD, path), -1, REAL(mkdir)(path, bits)) }
int close(int file) {
    if (is_ours(file)) remember(file);
    if (file >= 0 && file < FILES) ours[file] = 0;
    return REAL(close)(file);
}
