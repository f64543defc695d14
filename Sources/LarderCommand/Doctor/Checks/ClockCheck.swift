import LarderClientCore
import LarderEncoding
import LarderProtocol

/// Checks the clock. Freshness, times to live and certificates depend on it.
enum ClockCheck {
    private static let name = "clock"
    /// The maximum difference, in milliseconds, between the clock and a time from the agent. The check reports larger
    /// differences.
    private static let tolerance = 5000

    static func findings(_ isSynchronized: Bool?, _ agent: AgentFacts?, _ service: ServiceFacts) -> [Finding] {
        var findings: [Finding] = []
        if let agent {
            let expected = agent.info.startedAt.milliseconds + agent.info.uptimeMilliseconds
            let shift = agent.now.milliseconds - expected
            if abs(shift) > tolerance {
                let direction = shift > 0 ? "forward" : "back"
                findings.append(
                    Finding(
                        .warning, name,
                        "the clock was set \(direction) by \(Human.span(milliseconds: abs(shift))) since the agent started",
                        detail: [
                            "ages and times that the agent recorded before the change are off by the same amount"
                        ]))
            }
            let future = (try? agent.status.get())?.namespaces.filter {
                ($0.publishedAt?.milliseconds ?? 0) > agent.now.milliseconds + tolerance
            }
            for namespace in future ?? [] {
                let ahead = (namespace.publishedAt?.milliseconds ?? 0) - agent.now.milliseconds
                findings.append(
                    Finding(
                        .warning, name,
                        "the publication time of namespace \"\(namespace.namespace)\" is "
                            + "\(Human.span(milliseconds: ahead)) in the future",
                        detail: ["the clock was wrong when the snapshot was published, or it is wrong now"],
                        advice: ["check the clock: \(service.hasSystemd ? "timedatectl" : "date")"]
                    ))
            }
        }
        switch isSynchronized {
        case true?: if findings.isEmpty { findings.append(Finding(.ok, name, "synchronized")) }
        case false?:
            findings.append(
                Finding(
                    .warning, name, "not synchronized with a time server",
                    advice: [
                        service.hasSystemd
                            ? "sudo timedatectl set-ntp true; if it is already on, find the cause: timedatectl timesync-status"
                            : "start a time service on this host, such as chronyd or ntpd"
                    ]))
        case nil:
            if findings.isEmpty {
                findings.append(Finding(.skipped, name, "the kernel does not report whether the clock is synchronized"))
            }
        }
        return findings
    }
}
