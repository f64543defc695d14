import Glibc

/// The number of connections that this process can open.
enum OpenFileLimit {
    /// The number of descriptors for standard streams, epoll, control connections and files below /proc.
    private static let spare = 64

    /// Whether the hard limit suffices for `connections`, so that ``raise(toAtLeast:)`` would succeed.
    static func allows(_ connections: Int) -> Bool {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
            && limit.rlim_max >= rlim_t(connections + spare)
    }

    /// Raises the soft limit if necessary.
    /// - Throws: `.system` if the hard limit is too low for `connections`.
    static func raise(toAtLeast connections: Int) throws(BenchError) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw .system("getrlimit") }
        let needed = rlim_t(connections + spare)
        guard limit.rlim_cur < needed else { return }
        guard limit.rlim_max >= needed else {
            throw BenchError(
                .system,
                "\(connections) connections require \(needed) open files, but the hard limit is \(limit.rlim_max); raise it (ulimit -Hn)"
            )
        }
        limit.rlim_cur = needed
        guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw .system("setrlimit") }
    }
}
