import LarderClient

/// Is the clock right? Freshness, times to live and certificates depend on it.
enum ClockCheck {
    private static let name = "clock"
    /// The permitted difference between two clock readings, in milliseconds.
    private static let tolerance = 5000

    static func findings(_ facts: ClockFacts, _ agent: AgentFacts?, _ service: ServiceFacts) -> [Finding] {
        var findings: [Finding] = []
        if let agent {
            let expected = agent.info.startedAt.milliseconds + agent.info.uptimeMilliseconds
            let shift = agent.now.milliseconds - expected
            if abs(shift) > tolerance {
                let direction = shift > 0 ? "forward" : "back"
                findings.append(
                    Finding(
                        .warning, name,
                        "the clock was set \(direction) by \(Human.span(milliseconds: abs(shift))) since the agent's start",
                        detail: ["what it says of ages and times before that is off by as much"]))
            }
            let future = (try? agent.status.get())?.namespaces.filter {
                ($0.publishedAt?.milliseconds ?? 0) > agent.now.milliseconds + tolerance
            }
            for namespace in future ?? [] {
                let ahead = (namespace.publishedAt?.milliseconds ?? 0) - agent.now.milliseconds
                findings.append(
                    Finding(
                        .warning, name,
                        "the snapshot of namespace \(namespace.namespace) is from the future, by "
                            + Human.span(milliseconds: ahead),
                        detail: ["it was published while the clock was wrong, or is wrong now"],
                        advice: [service.hasSystemd ? "timedatectl" : "date"]
                    ))
            }
        }
        switch facts.isSynchronized {
        case true?: if findings.isEmpty { findings.append(Finding(.ok, name, "synchronized")) }
        case false?:
            findings.append(
                Finding(
                    .warning, name, "not synchronized with a time server",
                    advice: [
                        service.hasSystemd
                            ? "sudo timedatectl set-ntp true, or see what keeps it: timedatectl timesync-status"
                            : "start a time service on this host, such as chronyd or ntpd"
                    ]))
        case nil: if findings.isEmpty { findings.append(Finding(.skipped, name, "the kernel does not say")) }
        }
        return findings
    }
}
