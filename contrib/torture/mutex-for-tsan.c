// Reports contended operations of Swift's Mutex to the thread sanitizer.
//
// The fast paths of Synchronization.Mutex, which lock and unlock without contention, are inlined into its users and are seen
// by the sanitizer. The slow paths are two functions of the library, which is not built with the sanitizer, so accesses
// under the lock would be reported as races. This library is loaded with LD_PRELOAD, replaces the two functions, and notifies
// the sanitizer after each lock and before each unlock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef void note(void *address);
// Swift's calling convention passes self in a dedicated register.
typedef void __attribute__((swiftcall)) lock_slow(uint32_t thread, __attribute__((swift_context)) void *mutex);
typedef void __attribute__((swiftcall)) unlock_slow(__attribute__((swift_context)) void *mutex);

static note *acquired, *releasing;
static lock_slow *real_lock;
static unlock_slow *real_unlock;

__attribute__((constructor)) static void find(void) {
    // Both are null in programs that are not built with the sanitizer, such as a shell that starts a sanitized program.
    acquired = (note *)dlsym(RTLD_DEFAULT, "__tsan_acquire");
    releasing = (note *)dlsym(RTLD_DEFAULT, "__tsan_release");
    real_lock = (lock_slow *)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
    real_unlock = (unlock_slow *)dlsym(RTLD_NEXT, "$s15Synchronization12_MutexHandleV11_unlockSlowyyF");
}

__attribute__((swiftcall)) void larder_lock_slow(uint32_t thread, __attribute__((swift_context)) void *mutex)
    __asm__("$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF");
__attribute__((swiftcall)) void larder_unlock_slow(__attribute__((swift_context)) void *mutex)
    __asm__("$s15Synchronization12_MutexHandleV11_unlockSlowyyF");

__attribute__((swiftcall)) void larder_lock_slow(uint32_t thread, __attribute__((swift_context)) void *mutex) {
    if (!real_lock) find();
    if (!real_lock) abort();
    real_lock(thread, mutex);
    if (acquired) acquired(mutex);
}

__attribute__((swiftcall)) void larder_unlock_slow(__attribute__((swift_context)) void *mutex) {
    if (!real_unlock) find();
    if (!real_unlock) abort();
    if (releasing) releasing(mutex);
    real_unlock(mutex);
}
