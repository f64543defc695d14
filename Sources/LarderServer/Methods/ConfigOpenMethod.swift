import LarderConfig
import LarderConfigModel
import LarderProtocol
import NIOCore

/// Snapshots as files that clients map.
extension Connection {
    /// Answers a `config.open`: at once where the file is there or is made in no time, else once it is made.
    func serveOpen(_ request: MethodTable.OwnRequest<ConfigOpen>) throws(WireError) {
        // Nobody would take the descriptor.
        guard let id = request.id else {
            request.place?.leaveEmpty()
            return
        }
        if request.place != nil {
            throw WireError(
                .invalidParams, "a batch has one reply, with which no descriptors come; open it outside the batch")
        }
        let publication = try scope.namespace(request.parameters.namespace).publication
        guard publication.current.snapshot.revision > 0 else {
            throw RequestScope.missing(ConfigGet.Parameters(namespace: publication.namespace), publication.current)
        }
        if let opened = try loop.server.snapshotFiles.atOnce(publication) {
            guard pass(opened.file) else { return }
            return reply(id: id, Self.result(opened, publication), in: nil)
        }
        let ticket = try ticket(for: id, request.admission, in: nil, endsWithConnection: true)
        let connection = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let (files, eventLoop) = (loop.server.snapshotFiles, loop.eventLoop)
        let task = Task.immediate {
            let result: Result<OpenedSnapshot, WireError>
            do throws(WireError) {
                result = .success(try await files.file(publication))
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { connection.value.opened(ticket, result, publication) }
        }
        inFlight[ticket]?.cancel = { reason in
            // The file is made all the same: others may wait for it.
            task.cancel()
            self.complete(ticket, .failure(reason))
        }
    }

    private func opened(
        _ ticket: Int, _ result: Result<OpenedSnapshot, WireError>, _ publication: ConfigPublication
    ) {
        // It was cancelled, or the client is gone.
        guard let request = inFlight[ticket] else { return }
        switch result {
        case .failure(let error): complete(ticket, .failure(error))
        case .success(let opened):
            // Who lost the right meanwhile gets the refusal, and nothing with it.
            guard request.denial == nil, pass(opened.file) else { return complete(ticket, .failure(.gone)) }
            complete(ticket, .success(Self.result(opened, publication)))
        }
    }

    /// Has the first byte that is written from now on carry a descriptor.
    /// - Returns: false where that found the client gone.
    private func pass(_ file: PassedFile) -> Bool {
        flush()
        if isClosed { return false }
        loop.passed = file
        return true
    }

    private static func result(_ opened: OpenedSnapshot, _ publication: ConfigPublication) -> ConfigOpen.Result {
        ConfigOpen.Result(
            namespace: publication.namespace, revision: opened.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness), bytes: opened.byteCount)
    }
}

extension WireError {
    fileprivate static let gone = WireError(.cancelled, "the connection is gone")
}
