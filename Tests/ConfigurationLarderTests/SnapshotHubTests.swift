import Configuration
import Testing

@testable import ConfigurationLarder

@Suite("Watchers")
struct SnapshotHubTests {
    /// The values of an integer that a watcher gets, in the order of its requests.
    private struct Numbers {
        private var iterator: SnapshotUpdates<Int?>.AsyncIterator

        init(_ watcher: SnapshotHub.Watcher, _ key: String) {
            let updates = SnapshotUpdates<Int?>(initial: watcher.initial, later: watcher.later) { snapshot in
                guard case .success(let result) = snapshot.result(at: [key], .int),
                    case .int(let number) = result.value?.content
                else { return nil }
                return number
            } isSame: {
                $0 == $1
            }
            iterator = updates.makeAsyncIterator()
        }

        mutating func next() async -> Int?? { await iterator.next() }
    }

    @Test("a watcher gets the current value, then one value for each change of its key")
    func changes() async throws {
        let hub = SnapshotHub(try snapshot(#"{"a":1,"b":1}"#))
        let watcher = hub.watch(["a"])
        var numbers = Numbers(watcher, "a")
        #expect(await numbers.next() == 1)
        hub.publish(try snapshot(#"{"a":2,"b":1}"#))
        #expect(await numbers.next() == 2)
        // A change of another key, the same document, and another notation of the same number are no changes.
        hub.publish(try snapshot(#"{"a":2,"b":2}"#))
        hub.publish(try snapshot(#"{"a":2,"b":2}"#))
        hub.publish(try snapshot(#"{"a":2.0,"b":2}"#))
        hub.publish(try snapshot(#"{"a":3,"b":2}"#))
        #expect(await numbers.next() == 3)
        hub.publish(try snapshot(#"{"b":2}"#))
        #expect(await numbers.next() == .some(nil))
        hub.remove(watcher)
        #expect(await numbers.next() == nil)
    }

    @Test("a slow watcher gets only the newest value, and no value if it equals the previous one")
    func slow() async throws {
        let hub = SnapshotHub(try snapshot(#"{"a":1}"#))
        let watcher = hub.watch(["a"])
        var numbers = Numbers(watcher, "a")
        #expect(await numbers.next() == 1)
        for number in 2...100 { hub.publish(try snapshot(#"{"a":\#(number)}"#)) }
        #expect(await numbers.next() == 100)
        hub.publish(try snapshot(#"{"a":1}"#))
        hub.publish(try snapshot(#"{"a":100}"#))
        hub.remove(watcher)
        #expect(await numbers.next() == nil)
    }

    @Test("a watcher that is registered between two snapshots starts with the first and gets the second")
    func registration() async throws {
        let hub = SnapshotHub(try snapshot(#"{"a":1}"#))
        hub.publish(try snapshot(#"{"a":2}"#))
        let watcher = hub.watch(["a"])
        hub.publish(try snapshot(#"{"a":3}"#))
        var numbers = Numbers(watcher, "a")
        #expect(await numbers.next() == 2)
        #expect(await numbers.next() == 3)
        #expect(hub.watcherCount == 1)
        hub.remove(watcher)
        #expect(hub.watcherCount == 0)
    }

    @Test("watchers of keys that differ only in Unicode normalization are notified of their own changes")
    func normalization() async throws {
        let hub = SnapshotHub(try snapshot(#"{"\#u{e9}":1,"e\#u{301}":1}"#))
        let (composed, decomposed) = (hub.watch(["\u{e9}"]), hub.watch(["e\u{301}"]))
        hub.publish(try snapshot(#"{"\#u{e9}":1,"e\#u{301}":2}"#, revision: 2))
        hub.publish(try snapshot(#"{"\#u{e9}":3,"e\#u{301}":2}"#, revision: 3))
        var (first, second) = (composed.later.makeAsyncIterator(), decomposed.later.makeAsyncIterator())
        #expect(await first.next()?.revision == 3)
        #expect(await second.next()?.revision == 2)
        hub.remove(composed)
        hub.remove(decomposed)
        #expect(hub.watcherCount == 0)
    }

    @Test("a watcher of an element of an array is notified of its changes")
    func element() async throws {
        let hub = SnapshotHub(try snapshot(#"{"list":[1,2]}"#))
        let watcher = hub.watch(["list", "1"])
        var later = watcher.later.makeAsyncIterator()
        hub.publish(try snapshot(#"{"list":[0,2]}"#))
        hub.publish(try snapshot(#"{"list":[0,3]}"#, revision: 7))
        #expect(await later.next()?.revision == 7)
        hub.remove(watcher)
        #expect(await later.next() == nil)
    }
}
