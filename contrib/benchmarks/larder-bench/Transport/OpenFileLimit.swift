import Glibc

/// The number of connections that this process can open.
enum OpenFileLimit {
    /// The number of descriptors for standard streams, epoll, control connections and files below /proc.
    private static let spare = 64

    /// Whether the limit of open files suffices for `connections`.
    static func allows(_ connections: Int) -> Bool {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
            && limit.rlim_cur >= rlim_t(connections + spare)
    }
}
