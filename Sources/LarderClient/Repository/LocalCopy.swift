import LarderJSON
import LarderProtocol
import LarderSnapshotFile

extension ConfigClient {
    /// Returns a mapped snapshot that is current, without a request if the client has one.
    /// - Parameter known: the position of a change that the snapshot must contain; nil for none.
    func localCopy(
        of namespace: String, since known: SnapshotReceiver.Position? = nil
    ) async throws(LarderClientError) -> MappedSnapshot {
        do throws(LarderClientError) {
            return try await snapshot(namespace: namespace, mapped: true, since: known)
        } catch {
            // The connection of the client may work although no file can be passed, for example over a relay or in a
            // test. The document is then requested over the connection.
            guard error.code == .protocolViolation || error.code == .unreachable else { throw error }
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
