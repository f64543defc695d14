import LarderClientCore

/// The output of `larder image peek` and `larder image why` for people.
struct ImageReport {
    let style: Style
    /// The current time, from which ages are computed.
    let now: Timestamp

    /// The cached state of an image, without a final line end.
    func text(_ reference: ImageReference, _ held: ImagePeek.Held) -> String {
        ([heading(reference, style.freshness(held.freshness))] + facts(held)).joined(separator: "\n")
    }

    /// The decision for a request, the rules that led to it, and the cached state.
    func text(_ reference: ImageReference, _ policy: ImagePolicy, _ result: ImagePeek.Result) -> String {
        var lines = [heading(reference, outcome(result, policy))]
        let rules = result.rules ?? []
        let width = max(Self.labelWidth, (rules.map { $0.name.printable.count }.max() ?? 0) + 2)
        lines += rules.map { "  \($0.name.printable.padded(to: width))\($0.text.printable)" }
        if let held = result.held {
            lines += [""] + facts(held, width)
        }
        return lines.joined(separator: "\n")
    }

    private static let labelWidth = 12

    private func heading(_ reference: ImageReference, _ text: String) -> String {
        let key = reference.cacheKey.map { "  key \($0)" } ?? ""
        return "\(style.strong((reference.url + key).printable))  \(text)"
    }

    private func outcome(_ result: ImagePeek.Result, _ policy: ImagePolicy) -> String {
        let behind = result.revalidates ? "; revalidated in the background" : ""
        // The rule `failure` means that a download failed recently. For some time the agent then does not contact the
        // origin, except with the policy networkOnly.
        if result.decision == .fetch || result.decision == .revalidate, policy != .networkOnly,
            result.rules?.contains(where: { $0.name == "failure" }) == true
        {
            let held = result.decision == .fetch ? "miss" : "cached"
            return style.problem("\(held): the origin failed recently and is not contacted again yet")
        }
        return switch result.decision {
        case .fresh: style.good("hit: fresh") + behind
        case .stale: style.warning("hit: stale, but allowed") + behind
        case .revalidate: style.warning("cached: revalidated with the origin before use")
        case .fetch: style.warning("miss: downloaded from the origin")
        case .notHeld: style.problem("miss: not cached")
        default: result.decision.rawValue.printable
        }
    }

    private func facts(_ held: ImagePeek.Held, _ width: Int = labelWidth) -> [String] {
        let left = held.expiresAt.map { $0.milliseconds - now.milliseconds }
        let end = left.map { $0 > 0 ? Human.ahead(milliseconds: $0) : Human.ago(milliseconds: -$0) }
        let rows: [(String, String?)] = [
            ("image", ImageText.properties(held.image)),
            ("digest", held.image.digest.description),
            ("file", held.path.printable),
            ("stored", ago(held.storedAt)),
            ("used", ago(held.lastUsedAt)),
            (left.map { $0 > 0 } ?? true ? "expires" : "expired", end ?? "immediately: each use requires revalidation"),
            ("age", Human.span(milliseconds: held.ageSeconds * 1000)),
            ("pinned", held.isPinned ? "yes" : nil),
        ]
        return rows.compactMap { label, text in text.map { "  \(label.padded(to: width))\($0)" } }
    }

    private func ago(_ time: Timestamp) -> String {
        Human.ago(milliseconds: now.milliseconds - time.milliseconds)
    }
}
