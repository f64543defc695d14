import Glibc

/// Reads the number of allocations of this process, which `counting/allocations.c` counts when it is loaded with
/// `LD_PRELOAD`.
final class AllocationCounter {
    private let descriptor: CInt

    /// Opens the file of the counts. Returns nil if `LARDER_ALLOCATIONS` does not name one.
    init?() {
        guard let path = getenv("LARDER_ALLOCATIONS") else { return nil }
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { return nil }
    }

    deinit { close(descriptor) }

    /// The number of calls of malloc(3) and related functions so far. Reading it allocates nothing.
    var calls: Int64 {
        var calls: Int64 = 0
        _ = pread(descriptor, &calls, MemoryLayout.size(ofValue: calls), 0)
        return calls
    }
}
