import LarderJSON
import LarderImages
import LarderPlatform
import LarderUpstream
import LarderProtocol
import NIOCore
import Synchronization

/// `image.prefetch`: many images at once, with notifications of how far it is.
extension Connection {
    /// How many images of one request are fetched at a time, where it does not say. The settings have the last word.
    private static let usualConcurrency = 16

    /// Carries out an `image.prefetch`. It ends with its connection; what is complete stays.
    func servePrefetch(_ request: MethodTable.OwnRequest<ImagePrefetch>) throws(WireError) {
        let images = try loop.server.imageService()
        let parameters = request.parameters
        let ticket = try ticket(for: request.id, request.admission, in: request.place, endsWithConnection: true)
        let report = PrefetchReport(on: loop.eventLoop, isOutputPending: { self.isOutputPending }) { progress in
            if self.isClosed { return }
            progress.write(to: &self.loop.output)
            self.loop.output.endLine()
            self.flush()
        }
        let (connection, told) = (
            NIOLoopBound(self, eventLoop: loop.eventLoop), NIOLoopBound(report, eventLoop: loop.eventLoop)
        )
        let (peer, eventLoop, concurrency) = (peer, loop.eventLoop, parameters.concurrency ?? Self.usualConcurrency)
        let (usage, limits) = (usage, limits)
        let id = parameters.reportsProgress ? request.id : nil
        let newest = Mutex<ImageProgress?>(nil)
        let signal = Signal { signal in
            eventLoop.execute {
                signal.take()
                if let progress = newest.withLock({ $0 }) { told.value.note(progress) }
            }
        }
        let task = Task.immediate {
            let result: Result<Prefetch.Outcome, WireError>
            do throws(WireError) {
                let prefetch = Prefetch(parameters.items, images, for: peer)
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
            eventLoop.execute { connection.value.prefetched(ticket, result, told.value, id) }
        }
        inFlight[ticket]?.cancel = { reason in
            self.inFlight[ticket]?.givenUp = reason
            task.cancel()
        }
    }

    private func prefetched(
        _ ticket: Int, _ result: Result<Prefetch.Outcome, WireError>, _ report: PrefetchReport, _ id: RequestID?
    ) {
        let givenUp = inFlight[ticket]?.givenUp
        switch result {
        case .failure(let error):
            report.end(with: nil)
            if error.code == .limitExceeded { countRefusalOfMore(error) }
            complete(ticket, .failure(error.code == .cancelled ? givenUp ?? error : error))
        case .success(let outcome) where outcome.isWhole:
            report.end(with: isClosed ? nil : id.map(outcome.progress.wire(for:)))
            complete(ticket, .success(outcome.result))
        case .success(let outcome):
            report.end(with: nil)
            let reason = givenUp ?? WireError(.cancelled, "the prefetch was cancelled")
            let (done, total) = (outcome.progress.done, outcome.progress.total)
            complete(
                ticket,
                .failure(WireError(reason.code, "\(reason.detail); \(done) of \(total) images are complete and stay")))
        }
    }
}
