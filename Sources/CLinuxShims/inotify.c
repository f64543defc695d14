#include "CLinuxShims.h"

#include <string.h>
#include <sys/inotify.h>

bool larder_inotify_next(
    const void *buffer, size_t length, size_t *offset, struct larder_inotify_event *event) {
    struct inotify_event header;
    if (*offset > length || length - *offset < sizeof(header)) {
        return false;
    }
    const char *record = (const char *)buffer + *offset;
    memcpy(&header, record, sizeof(header));  // a Swift buffer may not be aligned for the structure
    if (length - *offset - sizeof(header) < header.len) {
        return false;
    }
    const char *name = record + sizeof(header);
    event->watch = header.wd;
    event->mask = header.mask;
    event->cookie = header.cookie;
    event->name = header.len > 0 && memchr(name, 0, header.len) ? name : NULL;
    *offset += sizeof(header) + header.len;
    return true;
}
