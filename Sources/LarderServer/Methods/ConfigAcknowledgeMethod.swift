import LarderConfig
import LarderConfigModel
import LarderPlatform
import LarderProtocol

extension Connection {
    /// Notes that the client took or refused a snapshot.
    func acknowledge(_ parameters: ConfigAcknowledge.Parameters) throws(WireError) -> ConfigAcknowledge.Result {
        let publication = try scope.namespace(parameters.namespace).publication
        if let epoch = parameters.epoch, epoch != publication.epoch {
            throw WireError(
                .invalidParams,
                "\"epoch\" is \(epoch), and revisions now count in \(publication.epoch); take the current snapshot")
        }
        let newest = publication.current.snapshot.revision
        guard parameters.revision <= newest else {
            throw WireError(
                .invalidParams, "\"revision\" is \(parameters.revision), and the newest snapshot is \(newest)")
        }
        loop.registry.acknowledgements.note(
            AcknowledgementBook.Entry(
                revision: parameters.revision, accepted: parameters.accepted, reason: parameters.reason,
                at: Timestamp(milliseconds: WallClock.system.now), peer: peer),
            by: id, of: parameters.namespace)
        hasAcknowledged = true
        return ConfigAcknowledge.Result(revision: parameters.revision)
    }

    /// What the client said of each namespace's snapshots.
    var acknowledged: [AgentClients.Acknowledgement] {
        hasAcknowledged ? loop.registry.acknowledgements.said(by: id) : []
    }

    /// Forgets what the client said, because it is gone.
    func forgetAcknowledgements() {
        if hasAcknowledged { loop.registry.acknowledgements.forget(id) }
    }
}
