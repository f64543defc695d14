import CLinuxShims
import Glibc

/// What is told that its descriptor can be read or written.
open class EpollTarget {
    public init() {}

    /// Called on the loop's thread with the events that came (`EPOLLIN` and so on, epoll_ctl(2)).
    open func ready(_ events: EpollEvents) {}

    /// Called on the loop's thread after ``ready(_:)``, where it asked for that (``EpollLoop/resumeAfterOthers(_:)``).
    open func resume() {}
}

/// Events of epoll_ctl(2).
public struct EpollEvents: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// There is something to read, or the end of it.
    public static let readable = EpollEvents(rawValue: LARDER_EPOLL_IN)
    /// The socket takes bytes again.
    public static let writable = EpollEvents(rawValue: LARDER_EPOLL_OUT)
    /// The peer shut down its writing side, or is gone.
    public static let inputEnded = EpollEvents(rawValue: LARDER_EPOLL_RDHUP)
    /// Both directions are shut, or the socket failed: the peer is gone.
    public static let hungUp = EpollEvents(rawValue: LARDER_EPOLL_HUP | LARDER_EPOLL_ERR)
    /// Each event is told once, and not for as long as it holds.
    public static let onEdges = EpollEvents(rawValue: LARDER_EPOLL_ET)
}

/// A set of descriptors that is waited for (epoll(7)). Used by one thread at a time.
package final class Epoll {
    /// The most events of one turn.
    private static let maxEvents = 256

    private struct Place {
        var target: EpollTarget?
        /// Tells an event of a descriptor that was closed within the turn from those of the next one with its number.
        var generation: UInt32 = 0
    }

    private let descriptor: CInt
    private let events = UnsafeMutablePointer<larder_epoll_event>.allocate(capacity: maxEvents)
    /// By the number of the descriptor. A release build does not check accesses at run time, which would add 63 instructions
    /// to each event of a socket. No target is called while the array changes.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var places: [Place] = []

    /// - Throws: `cannotStart` where the kernel has no room for it.
    package init() throws(EpollError) {
        events.initialize(repeating: larder_epoll_event(), count: Self.maxEvents)
        descriptor = larder_epoll_create()
        guard descriptor >= 0 else { throw EpollError(.cannotStart, "cannot wait for sockets: \(Self.reason)") }
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// Watches a descriptor.
    /// - Throws: `cannotWatch` where the kernel has no room for it.
    package func add(_ watched: CInt, _ interest: EpollEvents, _ target: EpollTarget) throws(EpollError) {
        while places.count <= watched { places.append(Place()) }
        places[Int(watched)].generation &+= 1
        guard control(LARDER_EPOLL_ADD, watched, interest) == 0 else {
            throw EpollError(.cannotWatch, "cannot wait for a socket: \(Self.reason)")
        }
        places[Int(watched)].target = target
    }

    /// Watches a descriptor for other events.
    package func change(_ watched: CInt, to interest: EpollEvents) {
        // It fails only for one that is not watched.
        _ = control(LARDER_EPOLL_CHANGE, watched, interest)
    }

    /// Watches a descriptor no more. What was found of it in this turn is not told.
    package func remove(_ watched: CInt) {
        guard places.indices.contains(Int(watched)), places[Int(watched)].target != nil else { return }
        places[Int(watched)].target = nil
        _ = control(LARDER_EPOLL_DELETE, watched, [])
    }

    /// Watches a descriptor no more that is about to be closed, which is all that the kernel has to be told.
    package func forget(_ watched: CInt) {
        guard places.indices.contains(Int(watched)) else { return }
        places[Int(watched)].target = nil
    }

    /// Waits for events and tells their targets.
    /// - Parameter milliseconds: how long at most; -1 for as long as it takes.
    package func wait(atMost milliseconds: CInt) {
        let count = larder_epoll_wait(descriptor, events, CInt(Self.maxEvents), milliseconds)
        // Interrupted by a signal: the next turn looks again.
        if count <= 0 { return }
        for index in 0..<Int(count) {
            let event = events[index]
            let place = Int(event.number)
            guard places[place].generation == event.generation, let target = places[place].target else { continue }
            target.ready(EpollEvents(rawValue: event.events))
        }
    }

    private func control(_ operation: CInt, _ watched: CInt, _ interest: EpollEvents) -> CInt {
        var event = larder_epoll_event()
        event.events = interest.rawValue
        event.number = UInt32(watched)
        event.generation = places[Int(watched)].generation
        return larder_epoll_control(descriptor, operation, watched, &event)
    }

    private static var reason: String { String(cString: strerror(errno)) }
}
