import Glibc

/// The number of connections that this process may hold open.
enum OpenFileLimit {
    /// Raises the soft limit as far as the hard one allows.
    /// - Throws: `.system` when that leaves no room for `connections`.
    static func raise(toAtLeast connections: Int) throws(BenchError) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw .system("getrlimit") }
        // Standard streams, epoll, control connections and files below /proc.
        let needed = rlim_t(connections + 64)
        guard limit.rlim_cur < needed else { return }
        guard limit.rlim_max >= needed else {
            throw BenchError(
                .system, "\(connections) connections need ulimit -n \(needed); the hard limit is \(limit.rlim_max)")
        }
        limit.rlim_cur = needed
        guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { throw .system("setrlimit") }
    }
}
