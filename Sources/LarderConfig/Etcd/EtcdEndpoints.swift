import Synchronization

/// The endpoints of a cluster, of which one is used for as long as it works.
final class EtcdEndpoints: Sendable {
    /// Their URLs, without a slash at the end.
    let all: [String]
    private let index: Mutex<Int>

    /// - Parameters:
    ///   - all: at least one URL
    ///   - start: any number from 0; each host has its own, so that not all of them begin with the same endpoint
    init(_ all: [String], startingAt start: Int) {
        self.all = all.map { String($0.reversed().drop { $0 == "/" }.reversed()) }
        index = Mutex(start % max(1, all.count))
    }

    /// The endpoint to use.
    var current: String { index.withLock { all[$0] } }

    /// Goes on to the next one, unless somebody has done so already.
    func leave(_ endpoint: String) {
        index.withLock { index in
            if all[index] == endpoint { index = (index + 1) % all.count }
        }
    }
}
