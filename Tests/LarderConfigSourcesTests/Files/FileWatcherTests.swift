import ConfigTestSupport
import Foundation
import Logging
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Watching files", .timeLimit(.minutes(5)))
struct FileWatcherTests {
    private let scratch: ScratchDirectory
    private let watcher = FileWatcher(clock: Self.clock())

    init() throws { scratch = try ScratchDirectory() }

    /// A clock that skips the sleeps in which a burst settles. Those of the poll are longer.
    private static func clock(_ onSkippedSleep: @escaping @Sendable () -> Void = {}) -> ManualClock {
        ManualClock(skippingSleepsBelow: .seconds(1), onSkippedSleep: onSkippedSleep)
    }

    /// Fetches elements until what is read after one of them is as expected, like every user of the stream. If a change
    /// is missed the test runs into its time limit.
    private func expect(
        _ changes: AsyncStream<Void>, _ isAsExpected: () -> Bool
    ) async {
        while await changes.next() {
            if isAsExpected() { return }
        }
        Issue.record("the stream ended")
    }

    /// Follows a path and checks that each change of its text is seen. Several rounds, because each has to find its
    /// watches set anew after the one before.
    private func followsText(
        of path: String, asIn name: String, rounds: Int = 6, _ change: (Int, String) throws -> Void
    ) async throws {
        let changes = watcher.changes(at: path)
        #expect(await changes.next())
        for round in 1...rounds {
            try change(round, "text \(round)")
            await expect(changes) { scratch.text(name) == "text \(round)" }
        }
    }

    @Test("the first element comes at once, whatever there is or is not", arguments: ["", "f", "no/such/path", "loop"])
    func first(_ name: String) async throws {
        try scratch.write("", to: "f")
        try scratch.link("loop", to: "loop")
        let changes = watcher.changes(at: scratch.at(name))
        #expect(await changes.next())
    }

    @Test("a file that is written in place is seen")
    func inPlace() async throws {
        try scratch.write("", to: "f")
        try await followsText(of: scratch.at("f"), asIn: "f") { _, text in try scratch.write(text, to: "f") }
    }

    @Test("a file that is renamed over another is seen, again and again")
    func rename() async throws {
        try scratch.write("", to: "f")
        try await followsText(of: scratch.at("f"), asIn: "f") { _, text in try scratch.replace("f", with: text) }
    }

    @Test("a file that vanishes and comes back is seen")
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

    @Test("a file whose directories do not exist at the start is seen, and so are their comings and goings")
    func parents() async throws {
        let changes = watcher.changes(at: scratch.at("a/b/c/f"))
        for round in 1...4 {
            // Step by step: each one is seen only if the watches were set anew after the one before.
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

    @Test("a directory on the way that is exchanged for another is seen")
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

    @Test("a ConfigMap's exchange of ..data is seen behind the file's own link")
    func configMapFile() async throws {
        try scratch.makeDirectory("mount")
        try scratch.publish(["f": ""], version: 0, in: "mount")
        let changes = watcher.changes(at: scratch.at("mount/f"))
        for round in 1...4 {
            try scratch.publish(["f": "new \(round)"], version: round, in: "mount")
            await expect(changes) { scratch.text("mount/f") == "new \(round)" }
            // kubelet never does this; it shows that the new directory is watched.
            try scratch.replace("mount/..data/f", with: "newer \(round)")
            await expect(changes) { scratch.text("mount/f") == "newer \(round)" }
        }
    }

    @Test("a ConfigMap's exchange is seen through links from elsewhere, absolute and relative ones")
    func configMapFromElsewhere() async throws {
        try scratch.makeDirectory("mount")
        try scratch.makeDirectory("etc/deep")
        try scratch.publish(["f": ""], version: 0, in: "mount")
        try scratch.link("etc/deep/f", to: "../../link/f")
        try scratch.link("link", to: scratch.at("mount"))
        try await followsText(of: scratch.at("etc/deep/f"), asIn: "etc/deep/f") { round, text in
            try scratch.publish(["f": text], version: round, in: "mount")
        }
    }

    @Test("a directory that is the ..data link itself is seen to change")
    func directoryLink() async throws {
        try scratch.makeDirectory("mount")
        try scratch.publish(["f.json": ""], version: 0, in: "mount")
        try await followsText(of: scratch.at("mount/..data"), asIn: "mount/..data/f.json") { round, text in
            try scratch.publish(["f.json": text], version: round, in: "mount")
        }
    }

    @Test("a directory hears of its files: made, written, renamed, removed, made readable")
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

    @Test("a directory hears of what happens behind the links in it")
    func entriesElsewhere() async throws {
        try scratch.makeDirectory("mount")
        try scratch.makeDirectory("config.d")
        try scratch.publish(["f.json": ""], version: 0, in: "mount")
        try scratch.link("config.d/f.json", to: "../mount/f.json")
        try await followsText(of: scratch.at("config.d"), asIn: "config.d/f.json") { round, text in
            try scratch.publish(["f.json": text], version: round, in: "mount")
        }
    }

    @Test("a file is watched under all its names")
    func hardLinks() async throws {
        try scratch.makeDirectory("d")
        try scratch.write("", to: "other")
        #expect(link(scratch.at("other"), scratch.at("d/f.json")) == 0)
        try await followsText(of: scratch.at("d"), asIn: "d/f.json") { _, text in try scratch.write(text, to: "other") }
    }

    @Test("many watchers of one path all hear of it, and one that leaves does not take the others' watches along")
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

    // MARK: When the kernel says nothing

    /// What read(2) gives when the queue was too short (inotify(7)): watch -1, IN_Q_OVERFLOW, no cookie, no name.
    private static let overflow: [UInt32] = [UInt32(bitPattern: -1), UInt32(IN_Q_OVERFLOW), 0, 0]

    @Test("events that were lost count as a change of everything")
    func overflow() async {
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        Self.overflow.withUnsafeBytes { watcher.handleEvents($0) }
        #expect(await changes.next())
    }

    @Test("without any event there is an element at each turn of the slow poll")
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
        "watching resumes within ten seconds after the kernel grants queues and watches again, and until then it says why not",
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
        let problem = FileWatcher.Problem()
        let changes = watcher.changes(at: scratch.at("f"), reporting: problem)
        #expect(await changes.next())
        for _ in 1...2 {
            #expect(problem.message?.contains(number == EMFILE ? "max_user_instances" : "max_user_watches") == true)
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(5))
            #expect(await changes.next())
        }
        #expect(log.take().map(\.level) == [.warning])
        isExhausted.withLock { $0 = false }
        await clock.waitForSleepers(2)
        clock.advance(by: .seconds(5))
        #expect(await changes.next())
        #expect(problem.message == nil)
        #expect(log.take().map(\.level) == [.notice])
        try scratch.write("text", to: "f")
        await expect(changes) { scratch.text("f") == "text" }
        await watcher.stop()
    }

    @Test("events that do not cease do not hold an element back for ever")
    func endlessBurst() async {
        let holder = Holder()
        let watcher = FileWatcher(
            clock: Self.clock {
                // While one signal settles the next one comes.
                let watcher = holder.watcher.withLock { $0 }
                Self.overflow.withUnsafeBytes { watcher?.handleEvents($0) }
            })
        holder.watcher.withLock { $0 = watcher }
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        Self.overflow.withUnsafeBytes { watcher.handleEvents($0) }
        #expect(await changes.next())
        holder.watcher.withLock { $0 = nil }
        await watcher.stop()
    }

    private final class Holder: Sendable {
        let watcher = Mutex<FileWatcher?>(nil)
    }

    // MARK: Life

    @Test("stopping ends all streams and the thread, and later streams end at once")
    func stop() async {
        let changes = watcher.changes(at: scratch.at("f"))
        #expect(await changes.next())
        await watcher.stop()
        while await changes.next() {}
        for await _ in watcher.changes(at: scratch.at("f")) {}
        await watcher.stop()
    }

    @Test("a watcher that was never used stops, too")
    func stopUnused() async { await watcher.stop() }

    @Test("streams end when their watcher is gone")
    func dropped() async {
        let changes = FileWatcher(clock: Self.clock()).changes(at: scratch.at("f"))
        for await _ in changes {}
    }
}
