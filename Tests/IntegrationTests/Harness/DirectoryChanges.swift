import Foundation
import TestSupport

/// Watches a directory for entries that are created in it, deleted from it or moved into it (inotify(7)).
final class DirectoryChanges {
    private let descriptor: Descriptor

    init(_ path: String) throws {
        descriptor = Descriptor(inotify_init1(CInt(IN_CLOEXEC) | CInt(IN_NONBLOCK)))
        let events = UInt32(IN_MOVED_TO) | UInt32(IN_DELETE) | UInt32(IN_CREATE)
        guard inotify_add_watch(descriptor.number, path, events) >= 0 else {
            throw HarnessError.system("watch \(path)")
        }
    }

    /// Waits until `condition` is true. Evaluates it immediately and after each change of the directory.
    func wait(until deadline: Deadline = .usual, _ purpose: String, _ condition: () throws -> Bool) throws {
        while try !condition() {
            try TestSupport.wait(on: descriptor.number, until: deadline, purpose)
            var events = [UInt8](repeating: 0, count: 4096)
            _ = read(descriptor.number, &events, events.count)
        }
    }
}
