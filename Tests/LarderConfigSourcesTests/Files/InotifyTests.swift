import ConfigTestSupport
import Foundation
import LarderPlatform
import Synchronization
import Testing

@testable import LarderConfigSources

@Suite("Inotify", .timeLimit(.minutes(15)))
struct InotifyTests {
    private let scratch: ScratchDirectory
    private let inotify = Inotify()

    init() throws { scratch = try ScratchDirectory() }

    @Test("events for other names in a watched directory do not signal a subscriber")
    func noise() async throws {
        let count = Atomic<Int>(0)
        let (wakes, continuation) = AsyncStream.makeStream(of: Void.self)
        let signal = Signal { signal in
            signal.take()
            count.add(1, ordering: .relaxed)
            continuation.yield()
        }
        let subscriber = inotify.subscribe(signal)
        var scan = PathScan(inotify, subscriber: subscriber)
        scan.run(scratch.at("wanted"))
        inotify.keepOnly(scan.interests, for: subscriber)
        for number in 0..<100 { try scratch.write("x", to: "other\(number)") }
        #expect(mkdir(scratch.at("wanted"), 0o700) == 0)
        // Events arrive in order. When the event for `wanted` wakes the test, all earlier events have been handled.
        for await _ in wakes { break }
        #expect(count.load(ordering: .relaxed) == 1)
        await inotify.stop()
    }

    @Test("watches that no subscriber needs are removed")
    func watchesEnd() async throws {
        try scratch.makeDirectory("a/b")
        let (one, two) = (inotify.subscribe(Signal { _ in }), inotify.subscribe(Signal { _ in }))
        for (subscriber, path) in [(one, "a/b/c"), (two, "a/x")] {
            var scan = PathScan(inotify, subscriber: subscriber)
            scan.run(scratch.at(path))
            inotify.keepOnly(scan.interests, for: subscriber)
        }
        let depth = scratch.path.split(separator: "/").count
        // One watch on "/" and one on each directory down to a/b.
        #expect(inotify.watchCount == depth + 3)
        inotify.unsubscribe(one)
        #expect(inotify.watchCount == depth + 2)
        var scan = PathScan(inotify, subscriber: two)
        scan.run("/nowhere/at/all")
        inotify.keepOnly(scan.interests, for: two)
        #expect(inotify.watchCount == 1)
        inotify.unsubscribe(two)
        #expect(inotify.watchCount == 0)
        await inotify.stop()
    }

    @Test(
        "bytes that are not inotify events are ignored",
        arguments: [[], [1], Array(repeating: UInt8(0xff), count: 64)])
    func garbage(_ bytes: [UInt8]) {
        _ = inotify.subscribe(Signal { _ in })
        bytes.withUnsafeBytes { inotify.handle($0) }
        inotify.requestStop()
    }
}
