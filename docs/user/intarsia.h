/* Where many files of one directory of an Intarsia store lie, or hints for many, in one call.
 *
 *   char buffer[INTARSIA_BUFFER_BYTES] = "reads.fq\0genome.fa\0";
 *   int dir = open("/mnt/work/in", O_RDONLY | O_DIRECTORY);
 *   if (intarsia_locate(dir, buffer) == 0)
 *     for (const char *said = buffer; *said; said += strlen(said) + 1)
 *       puts(said);
 *
 * The buffer holds names of files in the directory, each ended by a zero byte, the last one by two. It comes
 * back with answers in the order of the names and in the same form, as many as fit: ask again for the rest.
 *
 *   LAYOUT size=BYTES hosts=HOST,...               each host has all bytes
 *   striped size=BYTES chunk=BYTES hosts=HOST,...  chunk i is on the host i modulo their number
 *   errno=NUMBER                                   there is no such file, say
 *   other                                          it is no regular file
 *
 * Of the layouts "empty", "inline", "packed" and "lower" every host is as near to the bytes as any other.
 * Fails with ENOTTY where the directory is in no store, and with EACCES where the store cannot tell without
 * knowing all groups of the caller that he may search the directory: use the attribute user.intarsia.location
 * of each file then.
 *
 * intarsia_tag gives files hints. Its buffer begins with these, ended by a zero byte as a name is; it comes back
 * with "ok" or errno=NUMBER for each name, EACCES for what another user owns.
 *
 *   char buffer[INTARSIA_BUFFER_BYTES] = "place=local close=fast\0reads.fq\0genome.fa\0";
 *   intarsia_tag(dir, buffer);
 */
#ifndef INTARSIA_H
#define INTARSIA_H

#include <sys/ioctl.h>

#define INTARSIA_BUFFER_BYTES ((1 << 14) - 4)
#define INTARSIA_LOCATE _IOWR('I', 1, char[INTARSIA_BUFFER_BYTES])
#define INTARSIA_TAG _IOWR('I', 2, char[INTARSIA_BUFFER_BYTES])

static inline int intarsia_locate(int dir, char buffer[INTARSIA_BUFFER_BYTES])
{
	return ioctl(dir, INTARSIA_LOCATE, buffer);
}

static inline int intarsia_tag(int dir, char buffer[INTARSIA_BUFFER_BYTES])
{
	return ioctl(dir, INTARSIA_TAG, buffer);
}

#endif
