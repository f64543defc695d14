import JSON

/// A path whose hash is worked out once: it may have a megabyte, and a table that it is put into and removed from asks for the
/// hash several times.
struct HashedPath: Hashable {
    let path: JSONPath
    private let hash: Int

    init(_ path: JSONPath) {
        self.path = path
        hash = path.hashValue
    }

    static func == (left: HashedPath, right: HashedPath) -> Bool { left.hash == right.hash && left.path == right.path }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
