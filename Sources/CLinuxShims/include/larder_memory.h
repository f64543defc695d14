/// What glibc's allocator offers in a header that Swift's Glibc module leaves out.
#pragma once

/// Sets up the allocator: mallopt(3). Call it before there are threads. Two arenas are enough for the agent's few threads,
/// and take half the address space of the default.
void larder_set_up_allocator(void);

/// Returns free memory to the system: malloc_trim(3).
void larder_trim_memory(void);
