import LarderJSON
import LarderProtocol

extension ConfigClient {
    /// Returns a mapped snapshot that is current, without a request if the client has one.
    /// - Parameter known: the position of a change that the snapshot must contain; nil for none.
    func localCopy(
        of namespace: String, since known: SnapshotReceiver.Position? = nil
    ) async throws(LarderClientError) -> MappedSnapshot {
        do throws(LarderClientError) {
            return try await snapshot(namespace: namespace, mapped: true, since: known)
        } catch {
            // A relayed connection cannot pass files. The document is then requested as JSON.
            guard error.code == .protocolViolation else { throw error }
            return try await snapshot(namespace: namespace, mapped: false, since: known)
        }
    }
}

extension MappedSnapshot {
    var position: SnapshotReceiver.Position { SnapshotReceiver.Position(revision: revision, epoch: epoch) }

    /// Returns the object member at a path; nil for none.
    func member(at path: JSONPath) throws(LarderClientError) -> JSONValue? {
        guard let text = bytes(at: path.pointer) else { return nil }
        do throws(JSONError) {
            return try JSONValue(parsing: text)
        } catch {
            throw LarderClientError(.protocolViolation, "the snapshot file is damaged: \(error)")
        }
    }
}
