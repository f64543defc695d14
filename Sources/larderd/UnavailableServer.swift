import CLinuxShims
import Glibc
import LarderJSON
import LarderPlatform
import LarderProtocol
import LarderSystemd
import Logging

/// Answers each request with the same error while the agent has no valid settings.
///
/// If the agent exited instead, each connection that waits in the backlog of the systemd socket would start it again,
/// until systemd closes the socket.
struct UnavailableServer {
    private struct Client {
        var framer = LineFramer(maximumLineBytes: UnavailableServer.maxLineBytes)
        /// The value of ``UnavailableServer/events`` when the client was accepted or last sent input.
        var activity: Int
    }

    private let listener: CInt
    private var clients: [CInt: Client] = [:]
    /// The number of accepted connections and inputs so far.
    private var events = 0
    /// Leaves descriptors to read the settings.
    private let maxClients = min(1024, max(1, Process.descriptorLimit / 2))
    private static let maxLineBytes = 64 * 1024
    /// A longer batch gets one error, as from an agent with settings.
    private static let maxBatchRequests = 64
    /// The time between two reads of the settings file.
    private static let interval = Duration.seconds(1)

    /// - Parameter listener: a listening stream socket, which stays open
    init(listener: CInt) { self.listener = listener }

    /// Serves until the settings are valid, and returns them. Blocks the calling thread. Notifies the service manager
    /// that the service is ready, so that it does not end the process.
    static func waitForSettings(_ command: Larderd, listener: CInt, logger: Logger) -> AgentPlan {
        var server = UnavailableServer(listener: listener)
        let notifier = ServiceNotifier()
        var problem: String?
        while true {
            do {
                let plan = try AgentPlan.forStart(command)
                server.close()
                if plan.settingsProblem == nil { logger.notice("the settings are valid now") }
                return plan
            } catch {
                if "\(error)" != problem {
                    problem = "\(error)"
                    logger.error(
                        """
                        the settings are invalid and no earlier ones are saved, so the agent answers each request with \
                        this error; correct them, and the agent starts with them within a second: \(error)
                        """,
                        metadata: ["error": "\(error)"])
                }
                // The status is sent each time, because a full notification socket loses it.
                _ = try? notifier.ready(status: "unavailable, because the settings are invalid: \(error)")
                _ = try? notifier.watchdog()
                server.serve(Self.refusal("\(error)"), for: interval)
            }
        }
    }

    private static func refusal(_ problem: String) -> WireError {
        WireError(
            .unavailable,
            "the settings of the agent are invalid; correct them, and it starts with them within a second: \(problem)")
    }

    /// Answers requests for a time.
    mutating func serve(_ refusal: WireError, for time: Duration) {
        let clock = ContinuousClock()
        let end = clock.now + time
        var accepts = true
        while true {
            let left = Int((end - clock.now) / .milliseconds(1))
            if left <= 0 { return }
            var descriptors = accepts ? [pollfd(fd: listener, events: Int16(POLLIN), revents: 0)] : []
            descriptors += clients.keys.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            // After a failure, poll(2) leaves all results at zero.
            guard poll(&descriptors, nfds_t(descriptors.count), CInt(left)) > 0 else { continue }
            for descriptor in descriptors where descriptor.revents != 0 && descriptor.fd != listener {
                if !answer(descriptor.fd, refusal) { drop(descriptor.fd) }
                // Many large batches must not delay the watchdog message.
                if clock.now >= end { break }
            }
            // After the clients, so that those with a request are not closed for a new one.
            if accepts, descriptors[0].revents != 0 {
                // Without a free descriptor, accept4(2) would fail immediately again.
                accepts = accept()
            }
        }
    }

    /// Closes all connections. Clients that connect again wait in the backlog.
    mutating func close() {
        for client in Array(clients.keys) { drop(client) }
    }

    private mutating func drop(_ client: CInt) {
        clients[client] = nil
        Glibc.close(client)
    }

    /// Accepts a connection. If the maximum number is open, first closes the one that has been idle for the longest
    /// time, so that idle clients do not keep others out.
    /// - Returns: false if no connection could be accepted
    private mutating func accept() -> Bool {
        if clients.count >= maxClients, let idle = clients.min(by: { $0.value.activity < $1.value.activity }) {
            drop(idle.key)
        }
        let client = uninterrupted { larder_accept(listener) }
        guard client >= 0 else { return false }
        events += 1
        clients[client] = Client(activity: events)
        return true
    }

    /// Reads once from a client and answers the requests.
    /// - Returns: false if the connection must be closed: the input has ended, or the client does not read its replies
    private mutating func answer(_ client: CInt, _ refusal: WireError) -> Bool {
        var input = [UInt8](repeating: 0, count: 16 * 1024)
        let count = uninterrupted { recv(client, &input, input.count, 0) }
        if count < 0 { return errno == EAGAIN }
        events += 1
        clients[client]?.activity = events
        var replies: [UInt8] = []
        input.withUnsafeBytes { input in
            let input = UnsafeRawBufferPointer(rebasing: input[..<count])
            var offset = 0
            while let line = clients[client]?.framer.next(in: input, at: &offset) {
                Self.reply(to: line, refusal, &replies)
            }
        }
        if count == 0, let line = clients[client]?.framer.finish() { Self.reply(to: line, refusal, &replies) }
        let sent = replies.isEmpty ? 0 : uninterrupted { larder_send_nosignal(client, replies, replies.count) }
        return count > 0 && sent == replies.count
    }

    private static func reply(to line: LineFramer.Line, _ refusal: WireError, _ replies: inout [UInt8]) {
        let bytes: [UInt8]? =
            switch line {
            case .whole(let bytes): Array(bytes)
            case .assembled(let bytes): bytes
            case .tooLong: nil
            }
        let message = bytes.flatMap { try? JSONValue(parsing: $0) }
        var writer = JSONWriter()
        if let message, message.kind == .array, (1...maxBatchRequests).contains(message.count) {
            let ids = message.elements.compactMap(id)
            if ids.isEmpty { return }
            writer.beginArray()
            for id in ids { Envelope.writeError(id: id, refusal, to: &writer) }
            writer.endArray()
        } else if let message, message.kind != .array {
            guard let id = id(of: message) else { return }
            Envelope.writeError(id: id, refusal, to: &writer)
        } else {
            Envelope.writeError(id: .null, refusal, to: &writer)
        }
        replies += writer.bytes + [0x0A]
    }

    /// The id of the reply; nil for a notification.
    private static func id(of message: JSONValue) -> RequestID? {
        do throws(Request.Invalid) {
            return try Request(message).id
        } catch {
            return error.id
        }
    }
}
