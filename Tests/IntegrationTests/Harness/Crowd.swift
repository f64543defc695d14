import Glibc
import TestSupport

/// Many subscribers that are read by one thread, and what each of them saw.
final class Crowd {
    /// One subscriber: the numbers of its events must follow each other.
    private struct Member {
        var client: LineClient
        var sequence = 0
        var revision = 0
        /// The revision from which on it counts: that of its first event, or of those which that one stands for.
        var first = 0
        /// Events, and snapshots that they stand for.
        var counted = 0
    }

    private var members: [Member]
    private var polled: [pollfd]

    /// Takes clients that have sent their subscription.
    init(_ clients: [LineClient]) {
        members = clients.map { Member(client: $0) }
        polled = clients.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
    }

    /// Reads what has come for anybody; waits for something if nothing has, or until the other descriptor can be read.
    func read(orWaitFor other: CInt = -1, until deadline: Deadline = .usual) throws {
        polled.append(pollfd(fd: other, events: Int16(POLLIN), revents: 0))
        defer { polled.removeLast() }
        if poll(&polled, nfds_t(polled.count), deadline.milliseconds) == 0 {
            throw HarnessError("waited in vain for events")
        }
        for index in members.indices where polled[index].revents != 0 { try take(index) }
    }

    /// Reads until each one has seen a revision.
    func read(upTo revision: Int, until deadline: Deadline = .usual) throws {
        while members.contains(where: { $0.revision < revision }) { try read(until: deadline) }
    }

    /// Whether each one saw every snapshot, or was told how many it did not see.
    var hasSeenEverything: Bool { members.allSatisfy { $0.counted == $0.revision - $0.first + 1 } }

    private func take(_ index: Int) throws {
        for line in members[index].client.linesSoFar() {
            guard let event = EventNumbers(line) else { continue }
            var member = members[index]
            guard event.sequence == member.sequence + 1 else {
                throw HarnessError("sequence \(event.sequence) after \(member.sequence)")
            }
            guard event.revision > member.revision else {
                throw HarnessError("revision \(event.revision) after \(member.revision)")
            }
            if member.sequence == 0 { member.first = event.revision - event.skipped }
            member.counted += 1 + event.skipped
            member.sequence = event.sequence
            member.revision = event.revision
            members[index] = member
        }
        if members[index].client.isAtEnd { throw HarnessError("the agent closed the connection of a subscriber") }
    }
}

/// The numbers of an event, taken out of its text: parsing hundreds of thousands of them would take longer than the
/// agent needs to send them.
struct EventNumbers {
    let sequence: Int
    let revision: Int
    let skipped: Int

    /// Nothing for a reply.
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
