/// Functions of glibc's allocator that Swift's Glibc module does not export.
#pragma once

/// Limits the allocator to two arenas: mallopt(3). Must be called before other threads exist. Two arenas are enough for
/// the agent's few threads, and take half the address space of the default.
void larder_set_up_allocator(void);

/// Returns free memory to the system: malloc_trim(3).
void larder_trim_memory(void);
