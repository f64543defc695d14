import Glibc
import TestSupport

/// Reads the events of many subscribers on one thread. Checks that the events of each subscriber have consecutive
/// sequence numbers and increasing revisions.
final class SubscriberGroup {
    private struct Subscriber {
        var client: LineClient
        var sequence = 0
        var revision = 0
        /// The revision of the first snapshot that counts in `accountedSnapshots`: the revision of the first event,
        /// minus the number in its `skipped`.
        var firstRevision = 0
        /// The number of snapshots that were delivered to the subscriber or counted in the `skipped` of an event.
        var accountedSnapshots = 0
    }

    private var subscribers: [Subscriber]
    private var polled: [pollfd]

    /// - Parameter clients: Clients that have sent `config.subscribe`.
    init(_ clients: [LineClient]) {
        subscribers = clients.map { Subscriber(client: $0) }
        polled = clients.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
    }

    /// Waits until a subscriber has input or the descriptor `other` is readable. Then reads the available events of all
    /// subscribers.
    func read(orWaitFor other: CInt = -1, until deadline: Deadline = .usual) throws {
        polled.append(pollfd(fd: other, events: Int16(POLLIN), revents: 0))
        defer { polled.removeLast() }
        if poll(&polled, nfds_t(polled.count), deadline.milliseconds) == 0 {
            throw HarnessError.timeout("events")
        }
        for index in subscribers.indices where polled[index].revents != 0 { try readEvents(of: index) }
    }

    /// Reads until every subscriber has received `revision` or a later one.
    func read(upTo revision: Int, until deadline: Deadline = .usual) throws {
        while subscribers.contains(where: { $0.revision < revision }) { try read(until: deadline) }
    }

    /// Whether every snapshot was delivered to each subscriber or counted in `skipped`.
    var hasNoGaps: Bool {
        subscribers.allSatisfy { $0.accountedSnapshots == $0.revision - $0.firstRevision + 1 }
    }

    private func readEvents(of index: Int) throws {
        for line in subscribers[index].client.availableLines() {
            guard let event = EventNumbers(line) else { continue }
            var subscriber = subscribers[index]
            guard event.sequence == subscriber.sequence + 1 else {
                throw HarnessError("sequence \(event.sequence) after \(subscriber.sequence)")
            }
            guard event.revision > subscriber.revision else {
                throw HarnessError("revision \(event.revision) after \(subscriber.revision)")
            }
            if subscriber.sequence == 0 { subscriber.firstRevision = event.revision - event.skipped }
            subscriber.accountedSnapshots += 1 + event.skipped
            subscriber.sequence = event.sequence
            subscriber.revision = event.revision
            subscribers[index] = subscriber
        }
        if subscribers[index].client.isAtEnd { throw HarnessError("the agent closed the connection of a subscriber") }
    }
}

/// The numbers in the line of an event, found by text search. Parsing hundreds of thousands of events as JSON would
/// take longer than the agent needs to send them.
struct EventNumbers {
    let sequence: Int
    let revision: Int
    let skipped: Int

    /// Nil for a line without `sequence` and `revision`, such as a reply.
    init?(_ line: [UInt8]) {
        let numbers = (line + [0]).withUnsafeBytes { bytes -> (Int, Int, Int)? in
            guard let text = bytes.bindMemory(to: CChar.self).baseAddress,
                let sequence = Self.number("\"sequence\":", in: text),
                let revision = Self.number("\"revision\":", in: text)
            else { return nil }
            return (sequence, revision, Self.number("\"skipped\":", in: text) ?? 0)
        }
        guard let numbers else { return nil }
        (sequence, revision, skipped) = numbers
    }

    private static func number(_ name: String, in text: UnsafePointer<CChar>) -> Int? {
        strstr(text, name).map { strtol($0 + name.utf8.count, nil, 10) }
    }
}
