/// inotify(7): walking the records of one read. inotify_init1, inotify_add_watch and the IN_* constants come from
/// Swift's Glibc module; only `struct inotify_event` with its flexible `name` does not.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// One record. `name` points into the buffer that was walked and ends with NUL; NULL when the watched object itself is
/// meant.
struct larder_inotify_event {
    int watch;
    unsigned int mask;
    unsigned int cookie;
    const char *name;
};

/// The record at `*offset` of what read(2) returned, moving `*offset` behind it. False at the end, and when the rest is
/// not a whole record (the kernel never splits one, so that says the buffer is something else).
bool larder_inotify_next(
    const void *buffer, size_t length, size_t *offset, struct larder_inotify_event *event);
