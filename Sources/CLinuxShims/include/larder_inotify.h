/// inotify(7): walking the records of one read. inotify_init1, inotify_add_watch and the IN_* constants come from
/// Swift's Glibc module; only `struct inotify_event` with its flexible `name` does not.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>

/// One record. `name` points into the buffer that was walked and ends with NUL; NULL when the watched object itself is
/// meant.
struct larder_inotify_event {
    int watch;
    uint32_t mask;
    uint32_t cookie;
    const char *name;
};

/// The record at `*offset` of what read(2) returned, moving `*offset` behind it. False at the end, and when the rest is
/// not a whole record (the kernel never splits one, so that says the buffer is something else).
static inline bool larder_inotify_next(
    const void *buffer, size_t length, size_t *offset, struct larder_inotify_event *event) {
    struct inotify_event header;
    if (*offset > length || length - *offset < sizeof(header)) {
        return false;
    }
    const char *record = (const char *)buffer + *offset;
    memcpy(&header, record, sizeof(header));  // a Swift buffer need not be aligned for the structure
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
