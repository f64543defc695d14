/// inotify(7): iterates over the records of one read. Swift's Glibc module exports inotify_init1, inotify_add_watch and
/// the IN_* constants, but not `struct inotify_event`, because of its flexible member `name`.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// One record. `name` points into the buffer and ends with NUL. It is NULL if the event concerns the watched object
/// itself.
struct larder_inotify_event {
    int watch;
    unsigned int mask;
    unsigned int cookie;
    const char *name;
};

/// Decodes the record at `*offset` of the bytes that read(2) returned, and advances `*offset` to the next record.
/// Returns false at the end, and also if the rest is not a whole record. The kernel never splits a record, so such a
/// rest did not come from inotify.
bool larder_inotify_next(
    const void *buffer, size_t length, size_t *offset, struct larder_inotify_event *event);
