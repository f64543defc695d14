/// What glibc's allocator offers in a header that Swift's Glibc module leaves out.
#pragma once

#include <malloc.h>

/// Sets up the allocator for a handful of threads that need a few megabytes now and then: mallopt(3). Call it before there
/// are threads.
///
/// Two arenas are enough for them, and take half the address space of the default. Pieces up to 32 MiB, the most that can
/// be set, come from an arena, which keeps what is free at its end: a megabyte that the kernel has to map takes 256 page
/// faults, half a millisecond together, and 40 that it takes back at once take three, with the thread that lets go of the
/// last. What is free for longer is given back by larder_trim_memory().
static inline void larder_set_up_allocator(void) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

/// Gives memory that is free back to the system: malloc_trim(3).
static inline void larder_trim_memory(void) { malloc_trim(0); }
