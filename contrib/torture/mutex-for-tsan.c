// Tells the thread sanitizer what Swift's Mutex does where threads meet on it.
//
// Synchronization.Mutex takes and gives back a free lock in code that is compiled into its user, which the sanitizer
// sees. A lock that another thread holds is taken, and one that another thread waits for is given back, in the library,
// which is not built for the sanitizer: what happened under the lock then looks like a race. This library is loaded before
// that one (LD_PRELOAD), stands in the place of its two functions, and says when they have taken or are about to give back.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef void note(void *address);
// self is in a register of its own in Swift's calling convention.
typedef void __attribute__((swiftcall)) lock_slow(uint32_t thread, __attribute__((swift_context)) void *mutex);
typedef void __attribute__((swiftcall)) unlock_slow(__attribute__((swift_context)) void *mutex);

static note *acquired, *releasing;
static lock_slow *real_lock;
static unlock_slow *real_unlock;

__attribute__((constructor)) static void find(void) {
    // Programs that are not built for the sanitizer, such as a shell in between, have no such functions.
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
