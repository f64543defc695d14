/// What glibc's allocator offers in a header that Swift's Glibc module leaves out.
#pragma once

#include <malloc.h>

/// Sets up the allocator: mallopt(3). Call it before there are threads. Two arenas are enough for the agent's few threads,
/// and take half the address space of the default.
static inline void larder_set_up_allocator(void) { mallopt(M_ARENA_MAX, 2); }

/// Returns free memory to the system: malloc_trim(3).
static inline void larder_trim_memory(void) { malloc_trim(0); }
