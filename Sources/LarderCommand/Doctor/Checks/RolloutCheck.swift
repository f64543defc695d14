import LarderClientCore

/// Checks whether the last rollout of each namespace has failed.
enum RolloutCheck {
    private static let name = "rollout"

    static func findings(_ facts: AgentFacts, _ hints: Hints = Hints()) -> [Finding] {
        // Another check reports an agent without a status.
        guard case .success(let status) = facts.status else { return [] }
        return status.namespaces.flatMap { findings($0, hints) }
    }

    /// The findings about one namespace; empty if its last rollout has succeeded.
    static func findings(_ namespace: ConfigStatus.Namespace, _ hints: Hints) -> [Finding] {
        guard let last = namespace.lastRollout, last.outcome != "published" else { return [] }
        let version = last.version.map { "version \($0)" } ?? "a document"
        let peer = last.peer.map { " by \(Provenance.process($0.command, pid: $0.pid, uid: $0.uid))" } ?? ""
        let reason = last.reason.map { ": \($0)" } ?? ""
        let name = namespace.namespace
        if last.outcome == "publishedAnyway" {
            return [
                Finding(
                    .warning, Self.name,
                    "\(name): \(version) was published although its rollout failed\(peer)\(reason)",
                    advice: ["correct the document at the source, or the clients that do not accept it"])
            ]
        }
        // The document may have been published since then.
        if namespace.hold == nil { return [] }
        return [
            Finding(
                .warning, Self.name, "\(name): the rollout of \(version) was rolled back\(peer)\(reason)",
                advice: [
                    "correct the document at the source, or publish it: "
                        + hints.command("larder rollback --release", namespace: name)
                ])
        ]
    }
}
