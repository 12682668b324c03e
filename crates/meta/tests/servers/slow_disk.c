/* A disk that takes long to sync: loaded into a server with LD_PRELOAD. */
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int descriptor) {
    usleep(1500000);
    return (int)syscall(SYS_fdatasync, descriptor);
}
