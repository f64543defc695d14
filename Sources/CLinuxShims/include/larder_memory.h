/// What glibc's allocator offers in a header that Swift's Glibc module leaves out.
#pragma once

#include <malloc.h>

/// Limits the number of arenas that threads allocate from: mallopt(3), M_ARENA_MAX. Call it before there are threads.
static inline void larder_limit_arenas(int count) { mallopt(M_ARENA_MAX, count); }

/// Gives memory that is free back to the system: malloc_trim(3).
static inline void larder_trim_memory(void) { malloc_trim(0); }
