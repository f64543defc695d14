import LarderJSON
import LarderImages
import LarderPlatform
import LarderUpstream
import LarderProtocol
import NIOCore
import Synchronization

/// `image.prefetch`: many images at once, with notifications of the progress. It ends with its connection; complete images
/// stay.
struct ImagePrefetchMethod {
    /// How many images of one request are fetched at a time if it does not say. The settings limit it.
    private static let defaultConcurrency = 16

    let connection: Connection

    private var loop: LoopContext { connection.loop }

    func serve(_ request: MethodTable.OwnRequest<ImagePrefetch>) throws(WireError) {
        let images = try loop.server.imageService()
        let parameters = request.parameters
        let ticket = try connection.dispatcher.begin(request.id, request.admission, .connection, in: request.slot)
        let report = report()
        let bound = NIOLoopBound((self, report), eventLoop: loop.eventLoop)
        let (rights, eventLoop) = (connection.rights, loop.eventLoop)
        let (usage, limits) = (connection.usage.user, connection.usage.limits)
        let concurrency = parameters.concurrency ?? Self.defaultConcurrency
        let id = parameters.reportsProgress ? request.id : nil
        let newest = Mutex<ImageProgress?>(nil)
        let signal = Signal { signal in
            eventLoop.execute {
                signal.take()
                if let progress = newest.withLock({ $0 }) { bound.value.1.note(progress) }
            }
        }
        let task = Task.immediate {
            let result: Result<PrefetchJob.Outcome, WireError>
            do throws(WireError) {
                let prefetch = PrefetchJob(parameters.items, images, for: rights)
                // A line that is too short to count can list images that take 60 times as much memory.
                let held = try usage.holdOrRefuse(prefetch.heldBytes, limits)
                defer { usage.hold(-held) }
                result = .success(
                    await prefetch.run(concurrency: concurrency) { progress in
                        guard let id else { return }
                        newest.withLock { $0 = progress.wire(for: id) }
                        signal.raise()
                    })
            } catch {
                result = .failure(error)
            }
            eventLoop.execute {
                let (method, report) = bound.value
                method.ended(ticket, result, report, id)
            }
        }
        connection.pending[ticket]?.onCancel = { _ in task.cancel() }
    }

    private func report() -> PrefetchProgress {
        PrefetchProgress(on: loop.eventLoop, isOutputPending: { [connection] in connection.outbound.isPending }) {
            [connection] progress in
            if connection.phase == .closed { return }
            progress.write(to: &connection.loop.output.writer)
            connection.loop.output.writer.endLine()
            connection.output.flush()
        }
    }

    private func ended(
        _ ticket: PendingRequests.Ticket, _ result: Result<PrefetchJob.Outcome, WireError>, _ report: PrefetchProgress,
        _ id: RequestID?
    ) {
        let cancellation = connection.pending[ticket]?.cancellation
        switch result {
        case .failure(let error):
            report.end(with: nil)
            if error.code == .limitExceeded {
                loop.count(
                    UsageRefusal(limit: .queuedBytes, error: error), of: connection.principal.credentials)
            }
            connection.complete(ticket, .failure(error.code == .cancelled ? cancellation ?? error : error))
        case .success(let outcome) where outcome.isWhole:
            report.end(with: connection.phase == .closed ? nil : id.map(outcome.progress.wire(for:)))
            connection.complete(ticket, .success(outcome.result))
        case .success(let outcome):
            report.end(with: nil)
            let reason = cancellation ?? WireError(.cancelled, "the prefetch was cancelled")
            let (done, total) = (outcome.progress.done, outcome.progress.total)
            connection.complete(
                ticket,
                .failure(WireError(reason.code, "\(reason.detail); \(done) of \(total) images are complete and stay")))
        }
    }
}
