import LarderClient

extension LarderClient {
    /// Tells the agent that a snapshot is in use here, or why it is not. That is only for people to see: nothing depends
    /// on it, and an agent that does not know the method is as good as any.
    func acknowledge(_ snapshot: ConfigSnapshot, _ failure: Failure?) async {
        // One that is cut within a character ends with a replacement character, of three bytes.
        let longest = ConfigAcknowledge.Parameters.longestReason - 3
        let reason = failure.map { String(decoding: $0.message.utf8.prefix(longest), as: UTF8.self) }
        try? await config.acknowledge(snapshot, accepted: failure == nil, reason: reason)
    }
}

extension Result {
    /// Why it is no success.
    var failure: Failure? {
        if case .failure(let failure) = self { failure } else { nil }
    }
}
