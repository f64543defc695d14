import LarderPlatform
import LarderProtocol

extension ImagePrefetch: Method {
    /// The number of images that are downloaded concurrently if the request does not specify it. A setting may impose a
    /// lower maximum.
    private static let defaultConcurrency = 16

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, images) = (call.parameters, try call.server.imageService())
        let (connection, rights) = (call.connection, call.connection.rights)
        let concurrency = parameters.concurrency ?? defaultConcurrency
        let id = parameters.reportsProgress ? call.id : nil
        let notifier = ProgressNotifier<ImageProgress>(to: connection)
        let relay = ProgressRelay(to: notifier, on: call.loop.eventLoop)
        let prefetch = PrefetchJob(parameters.items, images, for: rights)
        var reply = TaskReply<Result>(size: .small) { () async throws(WireError) in
            await prefetch.run(concurrency: concurrency) { now in
                if let id { relay.pass(now.wire(for: id)) }
            }
        } finish: { outcome, request in
            let last = try? outcome.get()
            let isLastReported = last?.isWhole == true && connection.state.phase != .closed
            notifier.end(with: isLastReported ? id.flatMap { last?.progress.wire(for: $0) } : nil)
            return result(of: outcome, cancellation: request?.cancellation)
        }
        // The failures refer to the URLs of the job, so they need no reservation that would last as long as the job.
        reply.retainedBytes = prefetch.retainedBytes
        return .task(reply)
    }

    private static func result(
        of outcome: Swift.Result<PrefetchJob.Outcome, WireError>, cancellation: WireError?
    ) -> Swift.Result<Result, WireError> {
        switch outcome {
        case .failure(let error): return .failure(error.code == .cancelled ? cancellation ?? error : error)
        case .success(let outcome) where outcome.isWhole: return .success(outcome.result)
        case .success(let outcome):
            let reason = cancellation ?? WireError(.cancelled, "the prefetch was cancelled")
            let (done, total) = (outcome.progress.done, outcome.progress.total)
            return .failure(
                WireError(reason.code, "\(reason.detail); \(done) of \(total) images are complete and stay cached"))
        }
    }
}
