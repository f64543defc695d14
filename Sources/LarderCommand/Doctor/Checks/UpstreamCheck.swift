import LarderClientCore
import LarderEncoding
import LarderProtocol

/// Checks whether each namespace is up to date, and explains why it is not.
enum UpstreamCheck {
    private static let name = "upstream"
    private static let adviceAboutChanges =
        "correct this error: the user needs the right to watch for changes, and a proxy must pass streamed responses on "
        + "at once"

    static func findings(_ facts: AgentFacts, _ hints: Hints = Hints()) -> [Finding] {
        switch facts.status {
        case .failure(let failure): return [Finding(.skipped, name, "not checked: \(failure.message)")]
        case .success(let status):
            let found = status.namespaces.map { ($0, findings: findings($0, facts.now, hints)) }
            // A namespace whose new content was rejected, or whose state cannot be written, is not called up to date.
            let upToDate = found.filter { namespace, findings in
                findings.isEmpty && SchemaCheck.findings(namespace, hints).isEmpty && namespace.writeError == nil
            }.map { $0.0.namespace }
            return (upToDate.isEmpty ? [] : [Finding(.ok, name, summary(upToDate))]) + found.flatMap { $0.findings }
        }
    }

    private static func summary(_ names: [String]) -> String {
        let verb = names.count == 1 ? "is" : "are"
        guard names.count > 6 else { return "\(names.joined(separator: ", ")) \(verb) up to date" }
        return "\(names.count) namespaces are up to date"
    }

    /// The command that accepts the rejected document of a namespace. With a source, the status does not report whether the
    /// document came from it or was pushed.
    static func acceptance(in namespace: ConfigStatus.Namespace, _ hints: Hints) -> String {
        let push = hints.command("larder push FILE --force", namespace: namespace.namespace)
        if namespace.upstream == nil { return push }
        let refresh = hints.command("larder refresh --force", namespace: namespace.namespace)
        return "\(refresh) (or, if a client pushed it: \(push))"
    }

    /// The findings about one namespace; empty if it is up to date.
    static func findings(_ namespace: ConfigStatus.Namespace, _ now: Timestamp, _ hints: Hints) -> [Finding] {
        let name = namespace.namespace
        func command(_ words: String) -> String { hints.command(words, namespace: name) }
        var findings: [Finding] = []
        if let state = state(namespace, now, refresh: "poll the source now: \(command("larder refresh"))") {
            findings.append(state)
        }
        let accept = acceptance(in: namespace, hints)
        if let quarantine = namespace.quarantine {
            findings.append(
                Finding(
                    .warning, Self.name,
                    "\(name) rejected \(version(quarantine.version)), which would remove \(quarantine.removed) of "
                        + "\(quarantine.members) members",
                    advice: ["if this is intended: \(accept)"]))
        } else if let rejected = namespace.rejected {
            findings.append(
                Finding(
                    .warning, Self.name, "\(name) rejected \(version(rejected.version)): \(rejected.reason)",
                    advice: [
                        (namespace.upstream == nil
                            ? "correct the document and push it again" : "correct the document at the source")
                            + (rejected.canForce ? ", or accept it: \(accept)" : "")
                    ]))
        }
        if let hold = namespace.hold {
            findings.append(
                Finding(
                    .warning, Self.name,
                    "\(name) was rolled back to revision \(hold.revision), which holds back newer content of its sources",
                    advice: ["end the rollback: \(command("larder rollback --release"))"]))
        }
        if let expiry = namespace.upstream.flatMap({ expiry(of: $0, now) }) {
            let finding = Finding(
                .warning, Self.name, "\(name): \(expiry)",
                advice: [renewal(namespace.upstream?.certificateFile, "of the source")])
            // A certificate that has expired explains the state.
            findings.insert(finding, at: namespace.upstream.map { hasExpired($0, now) } == true ? 0 : findings.endIndex)
        }
        // A finding that is no warning must not hide one.
        let reported = findings.filter { $0.level != .ok }.flatMap(\.detail)
        for layer in namespace.layers where layer.problem != namespace.lastError?.message {
            guard let problem = problem(of: layer), !reported.contains(problem) else { continue }
            findings.append(Finding(.warning, Self.name, "\(name), \(problem)"))
        }
        if let problem = namespace.copy?.problem {
            findings.append(Finding(.warning, Self.name, "\(name), plain copy: \(problem)"))
        }
        if let rejection = namespace.acknowledgements.rejected.first {
            let who = Provenance.process(rejection.peer.command, pid: rejection.peer.pid, uid: rejection.peer.uid)
            findings.append(
                Finding(
                    .warning, Self.name,
                    "\(name), revision \(rejection.revision): rejected by \(who)\(rejection.reason.map { ": \($0)" } ?? "")",
                    advice: ["list the rejections: \(command("larder status --long"))"]))
        }
        return findings
    }

    /// The time before the expiry of a certificate at which the warning begins, in milliseconds.
    private static let warningBeforeExpiry = 14 * 86_400_000

    /// The warning that a certificate of the source's settings expires soon or has expired; nil if that is not so.
    static func expiry(of upstream: ConfigStatus.Upstream, _ now: Timestamp) -> String? {
        expiry(upstream.certificateExpiresAt, now).map {
            "a certificate for its source \($0)" + (upstream.certificateFile.map { ": \($0)" } ?? "")
        }
    }

    /// The advice about a certificate that expires.
    /// - Parameters:
    ///   - file: its file; nil if the agent does not report it
    ///   - section: the part of the settings that names the file
    static func renewal(_ file: String?, _ section: String) -> String {
        let files = "the files that certificate or certificateAuthority \(section) name; the agent reads them"
        return "renew \(file.map { "\($0); the agent reads it" } ?? files) for each request"
    }

    /// Whether a certificate of the source's settings has expired.
    static func hasExpired(_ upstream: ConfigStatus.Upstream, _ now: Timestamp) -> Bool {
        upstream.certificateExpiresAt.map { $0.milliseconds <= now.milliseconds } ?? false
    }

    /// When a certificate expires or has expired; nil if it is valid for long enough.
    static func expiry(_ expiry: Timestamp?, _ now: Timestamp) -> String? {
        guard let left = expiry.map({ $0.milliseconds - now.milliseconds }), left < warningBeforeExpiry else {
            return nil
        }
        return left > 0
            ? "expires \(Human.ahead(milliseconds: left))" : "expired \(Human.ago(milliseconds: -left))"
    }

    /// The finding about the state of a namespace; nil if it is up to date.
    /// - Parameter refresh: the advice to poll the source.
    private static func state(_ namespace: ConfigStatus.Namespace, _ now: Timestamp, refresh: String) -> Finding? {
        let name = namespace.namespace
        let duration = Human.span(milliseconds: namespace.duration(at: now))
        let detail = detail(namespace, now)
        switch namespace.state {
        case .failed:
            return Finding(
                .problem, Self.name, "\(name) has been failing for \(duration); \(served(namespace))", detail: detail,
                advice: [refresh])
        case .stale:
            if let advice = changesAdvice(in: namespace) {
                let polls = hasAnsweredInState(namespace) ? "; polls succeed" : ""
                return Finding(
                    .warning, Self.name,
                    "\(name) has been stale for \(duration), because its source cannot report changes\(polls)",
                    detail: detail, advice: [advice])
            }
            return Finding(
                .warning, Self.name, "\(name) has been stale for \(duration); \(served(namespace))", detail: detail,
                advice: namespace.upstream == nil ? [] : [refresh])
        case .initializing:
            return Finding(
                .warning, Self.name, "\(name) has waited \(duration) for the first response of its source",
                detail: detail, advice: [refresh])
        case .refreshing:
            // The state does not show how the poll before this one ended.
            guard let upstream = namespace.upstream else { return nil }
            let hasDocument = namespace.layers.contains { $0.name == "remote" && $0.present }
            if let advice = changesAdvice(in: namespace) {
                return Finding(
                    .warning, Self.name, "\(name) is polling its source, which cannot report changes", detail: detail,
                    advice: [advice])
            }
            if upstream.consecutiveFailures > 0 {
                let failures = Human.count(upstream.consecutiveFailures, "failed poll", "failed polls")
                return Finding(
                    hasDocument ? .warning : .problem, Self.name,
                    "\(name) is polling its source again after \(failures); \(served(namespace))", detail: detail,
                    advice: [refresh])
            }
            if hasAnsweredInState(namespace) {
                // Nothing has failed yet.
                return Finding(
                    .ok, Self.name,
                    "\(name) waits until its source can report changes; polls succeed", detail: detail)
            }
            if upstream.lastSuccessAt != nil { return nil }
            if hasDocument {
                // Nothing has failed yet.
                return Finding(
                    .ok, Self.name, "\(name) awaits the first poll since the agent started; \(served(namespace))",
                    detail: detail + [
                        "if a document was rejected before the start, it is reported again after this poll"
                    ])
            }
            return Finding(
                .warning, Self.name, "\(name) waits for the first response of its source; \(served(namespace))",
                detail: detail, advice: [refresh])
        default: return nil
        }
    }

    /// The advice if only the connection of a source on which it reports changes has failed, but no poll; otherwise nil.
    /// A failure of this connection counts as a failed poll until the next poll succeeds. A later failure of the polls
    /// counts as another one.
    private static func changesAdvice(in namespace: ConfigStatus.Namespace) -> String? {
        guard let upstream = namespace.upstream, let error = upstream.watchError,
            upstream.consecutiveFailures == 0
                || upstream.consecutiveFailures == 1 && namespace.lastError?.message == error
        else { return nil }
        if upstream.consecutiveFailures == 0 || hasAnsweredInState(namespace) { return adviceAboutChanges }
        // The agent will poll etcd before it watches again. A poll of an event stream can be the connection itself.
        return upstream.kind == "etcd" ? "if the next poll succeeds, \(adviceAboutChanges)" : nil
    }

    /// Whether the source keeps a connection on which it reports changes, and a poll has succeeded since the namespace
    /// entered its state. Only such a source can leave a namespace `stale` or `refreshing` after a successful poll.
    private static func hasAnsweredInState(_ namespace: ConfigStatus.Namespace) -> Bool {
        guard let upstream = namespace.upstream, ["etcd", "sse"].contains(upstream.kind),
            let success = upstream.lastSuccessAt
        else { return false }
        return success.milliseconds >= namespace.since.milliseconds
    }

    private static func served(_ namespace: ConfigStatus.Namespace) -> String {
        namespace.revision > 0 ? "revision \(namespace.revision) is still served" : "there is no snapshot to serve"
    }

    private static func version(_ version: String?) -> String { version.map { "version \($0)" } ?? "a document" }

    private static func problem(of layer: ConfigStatus.Layer) -> String? {
        layer.problem.map { "layer \(layer.name): \($0)" }
    }

    private static func detail(_ namespace: ConfigStatus.Namespace, _ now: Timestamp) -> [String] {
        var lines: [String] = []
        // A local file that cannot be read makes a namespace stale without an error of a source.
        if let cause = namespace.lastError?.message ?? namespace.layers.lazy.compactMap(problem).first {
            lines.append(cause)
        }
        if let upstream = namespace.upstream {
            let last = upstream.lastSuccessAt.map { now.milliseconds - $0.milliseconds }
            let answer =
                last.map { "last success \(Human.ago(milliseconds: $0))" } ?? "no success since the agent started"
            let next = upstream.nextAttemptAt.map { $0.milliseconds - now.milliseconds }
            let attempt = next.map { ", next attempt \(Human.ahead(milliseconds: $0))" } ?? ""
            lines.append("\(upstream.kind) \(upstream.location): \(answer)\(attempt)")
        }
        return lines
    }
}
