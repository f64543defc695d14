// Counts the allocations of a program. The library is loaded with LD_PRELOAD; it counts each call of malloc(3) and related
// functions and forwards it to glibc. The counts are in a file, which LARDER_ALLOCATIONS names and which is mapped into
// memory, so that other processes can read them at any time. The file contains three 64-bit numbers: all calls, all
// requested bytes, and the bytes that are allocated at present.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

struct counts {
    _Atomic int64_t calls, requested, allocated;
};

static struct counts before_start;
static struct counts *counts = &before_start;

__attribute__((constructor)) static void map_counts(void) {
    const char *path = getenv("LARDER_ALLOCATIONS");
    // Do not count the allocations of child processes.
    unsetenv("LD_PRELOAD");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *place = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (place == MAP_FAILED) return;
    struct counts *shared = place;
    // No other threads exist yet, so no call is missed between these copies and the switch to the shared counts.
    atomic_store(&shared->calls, atomic_load(&before_start.calls));
    atomic_store(&shared->requested, atomic_load(&before_start.requested));
    atomic_store(&shared->allocated, atomic_load(&before_start.allocated));
    counts = shared;
}

static void *count_allocation(void *memory, size_t size) {
    if (memory == NULL) return NULL;
    atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->requested, (int64_t)size, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->allocated, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
    return memory;
}

static void count_release(void *memory) {
    if (memory != NULL)
        atomic_fetch_sub_explicit(&counts->allocated, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
}

void *malloc(size_t size) { return count_allocation(__libc_malloc(size), size); }

void *calloc(size_t count, size_t size) { return count_allocation(__libc_calloc(count, size), count * size); }

void *realloc(void *memory, size_t size) {
    int64_t freed = memory == NULL ? 0 : (int64_t)malloc_usable_size(memory);
    void *moved = __libc_realloc(memory, size);
    if (moved != NULL || size == 0) atomic_fetch_sub_explicit(&counts->allocated, freed, memory_order_relaxed);
    return count_allocation(moved, size);
}

void *memalign(size_t alignment, size_t size) { return count_allocation(__libc_memalign(alignment, size), size); }

void *aligned_alloc(size_t alignment, size_t size) { return count_allocation(__libc_memalign(alignment, size), size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
    void *found = count_allocation(__libc_memalign(alignment, size), size);
    if (found == NULL) return ENOMEM;
    *memory = found;
    return 0;
}

void free(void *memory) {
    count_release(memory);
    __libc_free(memory);
}
