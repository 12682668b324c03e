/* Writes a file with asynchronous direct I/O while a thread reads it through the kernel's pages: what has been written
 * is what is read afterwards. Exit code 1 says that it was not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LENGTH = 64 << 10, ROUNDS = 400, PIECES = 8 };

static const char *path;
static volatile int is_done;

static void *read_on(void *unused)
{
    char *buffer = malloc(LENGTH);
    int fd = open(path, O_RDONLY);
    while (!is_done)
        if (pread(fd, buffer, LENGTH, 0) < 0)
            perror("read beside the writes");
    close(fd);
    free(buffer);
    return unused;
}

/* All pieces of the file are on their way at once. */
static int write_directly(aio_context_t context, int fd, char *buffer)
{
    struct iocb blocks[PIECES], *pointers[PIECES];
    struct io_event events[PIECES];
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < PIECES; i++) {
        blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
        blocks[i].aio_fildes = fd;
        blocks[i].aio_buf = (uintptr_t)(buffer + i * (LENGTH / PIECES));
        blocks[i].aio_nbytes = LENGTH / PIECES;
        blocks[i].aio_offset = i * (LENGTH / PIECES);
        pointers[i] = &blocks[i];
    }
    if (syscall(SYS_io_submit, context, (long)PIECES, pointers) != PIECES)
        return -1;
    if (syscall(SYS_io_getevents, context, (long)PIECES, (long)PIECES, events, NULL) != PIECES)
        return -1;
    for (int i = 0; i < PIECES; i++)
        if (events[i].res != LENGTH / PIECES)
            return -1;
    return 0;
}

int main(int count, char **arguments)
{
    aio_context_t context = 0;
    pthread_t reader;
    char *written, *found = malloc(LENGTH);
    int old = 0;
    if (count != 2 || posix_memalign((void **)&written, 4096, LENGTH))
        return 2;
    path = arguments[1];
    memset(written, 0, LENGTH);
    int direct = open(path, O_RDWR | O_CREAT | O_DIRECT, 0644), buffered = open(path, O_RDONLY);
    if (direct < 0 || buffered < 0 || pwrite(direct, written, LENGTH, 0) != LENGTH)
        return perror(path), 2;
    if (syscall(SYS_io_setup, PIECES, &context) || pthread_create(&reader, NULL, read_on, NULL))
        return perror("io_setup"), 2;
    for (int round = 1; round <= ROUNDS; round++) {
        memset(written, round, LENGTH);
        if (write_directly(context, direct, written))
            return perror("write"), 2;
        if (pread(buffered, found, LENGTH, 0) != LENGTH)
            return perror("read"), 2;
        old += memcmp(written, found, LENGTH) != 0;
    }
    is_done = 1;
    pthread_join(reader, NULL);
    if (old)
        fprintf(stderr, "%d of %d reads gave old bytes\n", old, ROUNDS);
    return old > 0;
}
