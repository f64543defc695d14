import LarderConfig
import LarderProtocol
import NIOCore

extension ConfigWait: Method {
    static var needsReply: Bool { true }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let publication = try call.namespace(call.parameters.namespace).publication
        let (wait, hub) = (SnapshotWait(call.parameters, publication), call.loop.hub)
        if let result = wait.result(in: publication.current) { return .now(result) }
        if wait.timeout?.nanoseconds == 0 { throw wait.timedOut }
        let deadline = wait.timeout.map { ReplyDeadline(time: $0, error: wait.timedOut) }
        return .later(deadline: deadline) { completion in
            wait.begin { result in
                hub.remove(wait)
                // Deferred, because a publication may end thousands of waits while other connections are being served.
                completion.completeDeferred(result)
            }
            hub.add(wait)
            // Checked again, because a snapshot may have been published after the first check and before the wait was
            // added.
            wait.evaluate(at: publication.current)
            if publication.current.hasEnded { wait.fail(.namespaceRemoved) }
            return wait.fail
        }
    }
}
