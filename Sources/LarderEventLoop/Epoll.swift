import CLinuxShims
import Glibc

/// Receives the events of a watched descriptor.
open class EpollTarget {
    public init() {}

    /// Called on the loop's thread with the events that occurred (`EPOLLIN` and so on, epoll_ctl(2)).
    open func ready(_ events: EpollEvents) {}

    /// Called on the loop's thread if ``ready(_:)`` has passed this target to ``EpollLoop/resumeAfterOthers(_:)``,
    /// after the other targets of the same iteration have received their events.
    open func resume() {}
}

/// Events of epoll_ctl(2).
public struct EpollEvents: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Input is available, or the end of the input was reached.
    public static let readable = EpollEvents(rawValue: LARDER_EPOLL_IN)
    /// The socket accepts output again.
    public static let writable = EpollEvents(rawValue: LARDER_EPOLL_OUT)
    /// The peer shut down its writing side or closed the connection.
    public static let inputEnded = EpollEvents(rawValue: LARDER_EPOLL_RDHUP)
    /// Both directions are shut down, or the socket failed.
    public static let hungUp = EpollEvents(rawValue: LARDER_EPOLL_HUP | LARDER_EPOLL_ERR)
    /// Edge-triggered: each change is reported once.
    public static let onEdges = EpollEvents(rawValue: LARDER_EPOLL_ET)
}

/// A set of watched descriptors (epoll(7)). Used by one thread at a time.
package final class Epoll {
    /// The maximum number of events that one ``wait(atMost:)`` delivers.
    private static let maxEvents = 256

    private struct Place {
        var target: EpollTarget?
        /// Incremented with each ``add(_:_:_:)`` of this descriptor number. Each event carries the generation of its
        /// registration, so a late event of a closed descriptor does not reach the target of a new descriptor with the
        /// same number.
        var generation: UInt32 = 0
    }

    private let descriptor: CInt
    private let events = UnsafeMutablePointer<larder_epoll_event>.allocate(capacity: maxEvents)
    /// The registrations, indexed by descriptor number. A release build does not check for overlapping accesses, which
    /// would add 63 instructions to each event of a socket. The check is not needed: no target is called while the
    /// array changes.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var places: [Place] = []

    /// - Throws: an error if the kernel cannot create the epoll instance.
    package init() throws(EpollError) {
        events.initialize(repeating: larder_epoll_event(), count: Self.maxEvents)
        descriptor = larder_epoll_create()
        guard descriptor >= 0 else { throw EpollError(description: "cannot create an epoll instance: \(Self.reason)") }
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// - Throws: an error if the kernel cannot watch another descriptor.
    package func add(_ watched: CInt, _ interest: EpollEvents, _ target: EpollTarget) throws(EpollError) {
        while places.count <= watched { places.append(Place()) }
        places[Int(watched)].generation &+= 1
        guard control(LARDER_EPOLL_ADD, watched, interest) == 0 else {
            throw EpollError(description: "cannot watch a descriptor: \(Self.reason)")
        }
        places[Int(watched)].target = target
    }

    /// Changes the events for which a descriptor is watched.
    package func change(_ watched: CInt, to interest: EpollEvents) {
        // Fails only if the descriptor is not watched.
        _ = control(LARDER_EPOLL_CHANGE, watched, interest)
    }

    /// Stops watching a descriptor. Its events that ``wait(atMost:)`` has not delivered yet are dropped.
    package func remove(_ watched: CInt) {
        guard places.indices.contains(Int(watched)), places[Int(watched)].target != nil else { return }
        places[Int(watched)].target = nil
        _ = control(LARDER_EPOLL_DELETE, watched, [])
    }

    /// Stops watching a descriptor that the caller is about to close. Unlike ``remove(_:)`` this needs no system call,
    /// because the kernel removes closed descriptors from the set.
    package func forget(_ watched: CInt) {
        guard places.indices.contains(Int(watched)) else { return }
        places[Int(watched)].target = nil
    }

    /// Waits for events and delivers them to their targets.
    /// - Parameter milliseconds: the maximum time to wait; -1 for no limit
    @inline(__always)
    package func wait(atMost milliseconds: CInt) {
        let count = larder_epoll_wait(descriptor, events, CInt(Self.maxEvents), milliseconds)
        // The wait timed out, or a signal interrupted it. In both cases the caller waits again in its next iteration.
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

/// The error thrown if an event loop cannot be started or a descriptor cannot be watched.
public struct EpollError: Error, CustomStringConvertible {
    /// The failure and its cause, in one line.
    public let description: String
}
