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
        return .later(size: .small, deadline: deadline, parameterBytes: wait.retainedBytes) { completion in
            wait.begin { result in
                hub.remove(wait)
                // The reply is deferred, so that other connections are served first if a publication ends thousands of
                // waits.
                completion.completeDeferred(result)
            }
            hub.add(wait)
            // The condition is checked again, because a snapshot may have been published after the first check and
            // before the wait was added.
            wait.evaluate(at: publication.current)
            if publication.current.hasEnded { wait.fail(.namespaceRemoved) }
            return wait.fail
        }
    }
}
