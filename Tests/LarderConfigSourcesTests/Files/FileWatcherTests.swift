import ConfigTestSupport
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("File watcher", .timeLimit(.minutes(15)))
struct FileWatcherTests {
    private let scratch: ScratchDirectory
    private let watcher = FileWatcher(clock: Self.clock())

    init() throws { scratch = try ScratchDirectory() }

    /// A clock that skips the sleeps in which the watcher waits for the end of a burst of events, but not the longer
    /// sleeps between slow polls.
    private static func clock(_ onSkippedSleep: @escaping @Sendable () -> Void = {}) -> ManualClock {
        ManualClock(skippingSleepsBelow: .seconds(1), onSkippedSleep: onSkippedSleep)
    }

    /// Waits for elements until `condition` holds after one of them. Like every consumer of the stream, `condition`
    /// reads the files after each element. If the watcher misses a change, the test exceeds its time limit.
    private func expect(_ changes: AsyncStream<FileWatcher.Change>, _ condition: () -> Bool) async {
        while await changes.next() {
            if condition() { return }
        }
        Issue.record("the stream ended")
    }

    /// Changes the text of a file `rounds` times and expects an element after each change. One round is not enough,
    /// because the watcher must set its watches again after each change.
    /// - Parameters:
    ///   - path: the watched path
    ///   - name: the file whose text changes
    private func expectChanges(
        at path: String, in name: String, rounds: Int = 6, _ change: (Int, String) throws -> Void
    ) async throws {
        let changes = watcher.changes(at: path)
        #expect(await changes.next())
        for round in 1...rounds {
            try change(round, "text \(round)")
            await expect(changes) { scratch.text(name) == "text \(round)" }
        }
    }

    @Test(
        "a stream yields its first element immediately, whether or not the path exists",
        arguments: ["", "f", "no/such/path", "loop"])
    func first(_ name: String) async throws {
        try scratch.write("", to: "f")
        try scratch.link("loop", to: "loop")
        let changes = watcher.changes(at: scratch.at(name))
        #expect(await changes.next())
    }

    @Test("a write in place is reported")
    func inPlace() async throws {
        try scratch.write("", to: "f")
        try await expectChanges(at: scratch.at("f"), in: "f") { _, text in try scratch.write(text, to: "f") }
    }

    @Test("a rename over the watched file is reported each time")
    func rename() async throws {
        try scratch.write("", to: "f")
        try await expectChanges(at: scratch.at("f"), in: "f") { _, text in try scratch.replace("f", with: text) }
    }

    @Test("removal and re-creation of a file are reported")
    func comesBack() async throws {
        try scratch.write("", to: "f")
        let changes = watcher.changes(at: scratch.at("f"))
        for round in 1...4 {
            try scratch.remove("f")
            await expect(changes) { scratch.text("f") == nil }
            try scratch.write("\(round)", to: "f")
            await expect(changes) { scratch.text("f") == "\(round)" }
        }
    }

    @Test("creation and removal of missing parent directories are reported")
    func parents() async throws {
        let changes = watcher.changes(at: scratch.at("a/b/c/f"))
        for round in 1...4 {
            // Each directory is reported only if the watches were set again after the previous directory was created.
            for step in ["a", "a/b", "a/b/c"] {
                try scratch.makeDirectory(step)
                await expect(changes) { scratch.exists(step) }
            }
            try scratch.write("\(round)", to: "a/b/c/f")
            await expect(changes) { scratch.text("a/b/c/f") == "\(round)" }
            try scratch.remove("a")
            await expect(changes) { !scratch.exists("a") }
        }
    }

    @Test("replacement of a parent directory is reported, and the new directory is watched")
    func exchangedParent() async throws {
        let changes = watcher.changes(at: scratch.at("a/b/f"))
        for round in 1...4 {
            try scratch.makeDirectory("new\(round)/b")
            try scratch.write("new \(round)", to: "new\(round)/b/f")
            if round > 1 { try scratch.move("a", to: "old\(round)") }
            try scratch.move("new\(round)", to: "a")
            await expect(changes) { scratch.text("a/b/f") == "new \(round)" }
            try scratch.replace("a/b/f", with: "newer \(round)")
            await expect(changes) { scratch.text("a/b/f") == "newer \(round)" }
        }
    }

    @Test("an update of a ConfigMap is reported for a file behind ..data")
    func configMapFile() async throws {
        try scratch.makeDirectory("mount")
        try scratch.publish(["f": ""], version: 0, in: "mount")
        let changes = watcher.changes(at: scratch.at("mount/f"))
        for round in 1...4 {
            try scratch.publish(["f": "new \(round)"], version: round, in: "mount")
            await expect(changes) { scratch.text("mount/f") == "new \(round)" }
            // kubelet never changes a file in `..data`, but this write shows that the watcher watches the new
            // directory.
            try scratch.replace("mount/..data/f", with: "newer \(round)")
            await expect(changes) { scratch.text("mount/f") == "newer \(round)" }
        }
    }

    @Test("an update of a ConfigMap is reported through absolute and relative links from other directories")
    func configMapFromElsewhere() async throws {
        try scratch.makeDirectory("mount")
        try scratch.makeDirectory("etc/deep")
        try scratch.publish(["f": ""], version: 0, in: "mount")
        try scratch.link("etc/deep/f", to: "../../link/f")
        try scratch.link("link", to: scratch.at("mount"))
        try await expectChanges(at: scratch.at("etc/deep/f"), in: "etc/deep/f") { round, text in
            try scratch.publish(["f": text], version: round, in: "mount")
        }
    }

    @Test("an update of a ConfigMap is reported for the ..data link itself")
    func directoryLink() async throws {
        try scratch.makeDirectory("mount")
        try scratch.publish(["f.json": ""], version: 0, in: "mount")
        try await expectChanges(at: scratch.at("mount/..data"), in: "mount/..data/f.json") { round, text in
            try scratch.publish(["f.json": text], version: round, in: "mount")
        }
    }

    @Test("creation, writes, renames, removal and mode changes of files in a directory are reported")
    func directory() async throws {
        try scratch.makeDirectory("d")
        let changes = watcher.changes(at: scratch.at("d"))
        try scratch.write("1", to: "d/a.json")
        await expect(changes) { scratch.text("d/a.json") == "1" }
        try scratch.write("2", to: "d/a.json")
        await expect(changes) { scratch.text("d/a.json") == "2" }
        try scratch.move("d/a.json", to: "d/b.json")
        await expect(changes) { scratch.text("d/b.json") == "2" }
        try scratch.remove("d/b.json")
        await expect(changes) { scratch.text("d/b.json") == nil }
        try scratch.remove("d")
        await expect(changes) { !scratch.exists("d") }
        try scratch.makeDirectory("d")
        try scratch.write("3", to: "d/c.json")
        await expect(changes) { scratch.text("d/c.json") == "3" }
        #expect(chmod(scratch.at("d/c.json"), 0o640) == 0)
        #expect(await changes.next())
    }

    @Test("changes to the targets of symbolic links in a directory are reported")
    func entriesElsewhere() async throws {
        try scratch.makeDirectory("mount")
        try scratch.makeDirectory("config.d")
        try scratch.publish(["f.json": ""], version: 0, in: "mount")
        try scratch.link("config.d/f.json", to: "../mount/f.json")
        try await expectChanges(at: scratch.at("config.d"), in: "config.d/f.json") { round, text in
            try scratch.publish(["f.json": text], version: round, in: "mount")
        }
    }

    @Test("a write through another hard link is reported")
    func hardLinks() async throws {
        try scratch.makeDirectory("d")
        try scratch.write("", to: "other")
        #expect(link(scratch.at("other"), scratch.at("d/f.json")) == 0)
        try await expectChanges(at: scratch.at("d"), in: "d/f.json") { _, text in try scratch.write(text, to: "other") }
    }

    @Test("all streams that cover a file report its changes, even after one of the streams has ended")
    func shared() async throws {
        try scratch.write("", to: "f")
        let first = watcher.changes(at: scratch.at("f"))
        let second = watcher.changes(at: scratch.path)
        do {
            let leaving = Task { [watcher, scratch] in
                for await _ in watcher.changes(at: scratch.at("f")) { return }
            }
            await leaving.value
        }
        for round in 1...4 {
            try scratch.replace("f", with: "\(round)")
            await expect(first) { scratch.text("f") == "\(round)" }
            await expect(second) { scratch.text("f") == "\(round)" }
        }
    }

    // MARK: Missing events

    /// The event that read(2) returns after a queue overflow (inotify(7)): watch -1, IN_Q_OVERFLOW, no cookie, no name.
    private static let overflow: [UInt32] = [UInt32(bitPattern: -1), UInt32(IN_Q_OVERFLOW), 0, 0]

    @Test("a queue overflow counts as a change of every path")
    func overflow() async {
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        Self.overflow.withUnsafeBytes { watcher.handleEvents($0) }
        #expect(await changes.next())
    }

    @Test("without events, an element arrives at each interval of the slow poll")
    func poll() async {
        let clock = Self.clock()
        let watcher = FileWatcher(clock: clock)
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        for _ in 1...3 {
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(30))
            #expect(await changes.next())
        }
    }

    @Test(
        "inotify queues and watches that the kernel refuses are requested again every 5 s, and the reason is reported",
        arguments: [EMFILE, ENOSPC])
    func exhausted(number: Int32) async throws {
        let isExhausted = Mutex(true)
        var system = Inotify.System()
        let (makeQueue, addWatch) = (system.makeQueue, system.addWatch)
        @Sendable func refuses(_ call: Int32) -> Bool {
            guard call == number, isExhausted.withLock({ $0 }) else { return false }
            errno = number
            return true
        }
        system.makeQueue = { refuses(EMFILE) ? -1 : makeQueue() }
        system.addWatch = { refuses(ENOSPC) ? -1 : addWatch($0, $1, $2) }
        let (clock, log) = (Self.clock(), LogRecorder())
        let watcher = FileWatcher(clock: clock, logger: log.logger, system: system)
        let changes = watcher.changes(at: scratch.at("f"))
        func nextProblem() async throws -> String? {
            var iterator = changes.makeAsyncIterator()
            return try #require(await iterator.next()).watchProblem
        }
        let limit = number == EMFILE ? "max_user_instances" : "max_user_watches"
        #expect(try await nextProblem()?.contains(limit) == true)
        for _ in 1...2 {
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(5))
            #expect(try await nextProblem()?.contains(limit) == true)
        }
        #expect(log.take().map(\.level) == [.warning])
        isExhausted.withLock { $0 = false }
        await clock.waitForSleepers(2)
        clock.advance(by: .seconds(5))
        #expect(try await nextProblem() == nil)
        #expect(log.take().map(\.level) == [.notice])
        try scratch.write("text", to: "f")
        await expect(changes) { scratch.text("f") == "text" }
        await watcher.stop()
    }

    @Test("an endless burst of events does not delay an element indefinitely")
    func endlessBurst() async {
        let box = WatcherBox()
        let watcher = FileWatcher(
            clock: Self.clock {
                // Another event arrives each time the watcher waits for the end of the burst.
                let watcher = box.watcher.withLock { $0 }
                Self.overflow.withUnsafeBytes { watcher?.handleEvents($0) }
            })
        box.watcher.withLock { $0 = watcher }
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        Self.overflow.withUnsafeBytes { watcher.handleEvents($0) }
        #expect(await changes.next())
        box.watcher.withLock { $0 = nil }
        await watcher.stop()
    }

    private final class WatcherBox: Sendable {
        let watcher = Mutex<FileWatcher?>(nil)
    }

    // MARK: Life cycle

    @Test("stop() ends all streams and the thread, and later streams end immediately")
    func stop() async {
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        await watcher.stop()
        while await changes.next() {}
        for await _ in watcher.changes(at: scratch.at("f")) {}
        await watcher.stop()
    }

    @Test("a watcher that was never used can be stopped")
    func stopUnused() async { await watcher.stop() }

    @Test("streams end when their watcher is released")
    func dropped() async {
        let changes = FileWatcher(clock: Self.clock()).changes(at: scratch.at("f"))
        for await _ in changes {}
    }
}
