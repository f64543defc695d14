import LarderConfig
import LarderConfigModel
import LarderProtocol
import NIOCore

/// `config.open`: a snapshot as a file that the client maps. The reply is written at once if the file exists or takes little
/// time to make, otherwise by a task.
struct ConfigOpenMethod {
    let connection: Connection

    private var loop: LoopContext { connection.loop }

    func serve(_ request: MethodTable.OwnRequest<ConfigOpen>) throws(WireError) {
        // A notification has no reply that could carry the descriptor.
        guard let id = request.id else {
            request.slot?.leaveEmpty()
            return
        }
        if request.slot != nil {
            throw WireError(
                .invalidParams, "a batch has one reply, with which no descriptors come; open it outside the batch")
        }
        let publication = try RequestScope(connection).namespace(request.parameters.namespace).publication
        guard publication.current.snapshot.revision > 0 else {
            throw RequestScope.missing(ConfigGet.Parameters(namespace: publication.namespace), publication.current)
        }
        if let opened = try loop.server.snapshotFiles.atOnce(publication) {
            guard connection.output.pass(opened.file) else { return }
            return connection.output.reply(id: id, Self.result(opened, publication), in: nil)
        }
        let ticket = try connection.dispatcher.begin(id, request.admission, .connection, in: nil)
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let (files, eventLoop) = (loop.server.snapshotFiles, loop.eventLoop)
        let task = Task.immediate {
            let result: Result<OpenedSnapshot, WireError>
            do throws(WireError) {
                result = .success(try await files.file(publication))
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { bound.value.opened(ticket, result, publication) }
        }
        connection.pending[ticket]?.onCancel = { [connection] reason in
            // The file is still made: other clients may wait for it.
            task.cancel()
            connection.complete(ticket, .failure(reason))
        }
    }

    private func opened(
        _ ticket: PendingRequests.Ticket, _ result: Result<OpenedSnapshot, WireError>, _ publication: ConfigPublication
    ) {
        // Nil if the request was cancelled or the client is gone.
        guard let request = connection.pending[ticket] else { return }
        switch result {
        case .failure(let error): connection.complete(ticket, .failure(error))
        case .success(let opened):
            // A client that has lost the right gets the refusal without the descriptor.
            guard request.denial == nil, connection.output.pass(opened.file) else {
                return connection.complete(ticket, .failure(.disconnected))
            }
            connection.complete(ticket, .success(Self.result(opened, publication)))
        }
    }

    private static func result(_ opened: OpenedSnapshot, _ publication: ConfigPublication) -> ConfigOpen.Result {
        ConfigOpen.Result(
            namespace: publication.namespace, revision: opened.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness), bytes: opened.byteCount)
    }
}

extension WireError {
    /// The error of a request whose client is gone.
    static let disconnected = WireError(.cancelled, "the connection is gone")
}
