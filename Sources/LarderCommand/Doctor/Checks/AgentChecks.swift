import LarderClientCore
import LarderProtocol

/// Checks that the agent and this program have the same version.
enum VersionCheck {
    private static let name = "version"

    static func finding(_ facts: AgentFacts, _ service: ServiceFacts, own: String = larderVersion) -> Finding {
        let theirs = facts.info.version
        if theirs == own { return Finding(.ok, name, "larder and the agent both have version \(own)") }
        return Finding(
            .warning, name, "larder has version \(own), but the running agent has version \(theirs)",
            detail: ["the running agent may be older than the installed one"], advice: service.restartCommands)
    }
}

/// Reports the rights of this user.
enum RightsCheck {
    static let name = "rights"

    static func finding(_ facts: AgentFacts) -> Finding {
        let rights = facts.info.rights
        let detail = facts.info.namespaceRights.sorted { $0.key < $1.key }.map { name, rights in
            "in namespace \(name): \(list(rights))"
        }
        if rights.isEmpty, facts.info.namespaceRights.allSatisfy(\.value.isEmpty) {
            return Finding(
                .warning, name, "you can connect, but have no rights", detail: detail,
                advice: ["grant rights with \"access\" in the settings, see larder.json(5)"])
        }
        return Finding(.ok, name, rights.isEmpty ? "only in some namespaces" : list(rights), detail: detail)
    }

    static func list(_ rights: [Right]) -> String {
        rights.isEmpty ? "none" : rights.map(\.rawValue).joined(separator: ", ")
    }
}

/// Reports what the agent has listed as problems in `agent.info`.
enum AgentProblemCheck {
    static func findings(_ info: AgentInfo.Result, _ reloadCommands: [String] = []) -> [Finding] {
        info.problems.map { finding($0, reloadCommands) }
    }

    private static func finding(_ problem: AgentInfo.Problem, _ reloadCommands: [String]) -> Finding {
        switch problem.name {
        case "namespace":
            Finding(
                .problem, SettingsCheck.name, "a namespace of the settings could not be opened, so it is not served",
                detail: [problem.message],
                advice: ["correct the cause, then reload the settings:"] + reloadCommands)
        case "imageIndex":
            Finding(
                .problem, ImageCheck.name, "the image cache cannot write its index to disk, so it keeps no new images",
                detail: [problem.message],
                advice: ["free space or repair the disk; the agent tries again every ten seconds"])
        case "imageSpace":
            Finding(
                .warning, ImageCheck.name, "the image cache has no disk space for new images",
                detail: [problem.message],
                advice: ["free disk space, or lower images.minimumFreeBytes in the settings, then reload them:"]
                    + reloadCommands)
        case "settingsCopy":
            Finding(
                .problem, SettingsCheck.name,
                "the settings in force are not saved, so they are lost if the agent restarts with an invalid settings file",
                detail: [problem.message],
                advice: [
                    "if the disk is full, free space; otherwise let the agent write to that directory, or name another one "
                        + "with --state-directory",
                    "the agent tries again every five seconds",
                ])
        case "report":
            Finding(
                .warning, "report", "the receiver did not accept the last report of this host",
                detail: [problem.message],
                advice: ["correct the cause; the agent reports again at its next time"])
        default: Finding(.problem, "agent", "\(problem.name): \(problem.message)")
        }
    }
}

extension AgentInfo.Result {
    /// Whether the agent reports that the disk has no room for new images.
    var lacksImageSpace: Bool { problems.contains { $0.name == "imageSpace" } }
}

/// Reports that the agent cannot start threads.
enum ThreadCheck {
    static func findings(_ info: AgentInfo.Result, _ service: ServiceFacts) -> [Finding] {
        guard let problem = info.threadProblem else { return [] }
        return [
            Finding(
                .problem, "threads", "the agent \(problem)",
                advice: [
                    "list the threads of its user: ps -L -u $(ps -o uid= -p \(info.pid))",
                    "set LimitNPROC= and TasksMax= in the unit (\(service.editCommand)), or ulimit -u in a shell",
                ] + service.restartCommands)
        ]
    }
}

/// Checks that the image cache has space and that requests for images succeed.
enum ImageCheck {
    static let name = "images"

    static func finding(
        _ facts: AgentFacts, _ service: ServiceFacts = .another, _ hints: Hints = Hints()
    ) -> Finding {
        if let problem = facts.info.imageProblem { return unusable(problem, service) }
        guard facts.info.imageDirectory != nil else {
            return Finding(.ok, name, "disabled in the settings (images.enabled)")
        }
        switch facts.stats {
        case .failure(let failure): return Finding(.skipped, name, "not checked: \(failure.message)")
        case .success(let stats):
            guard let images = stats.images else { return Finding(.ok, name, "disabled in the settings") }
            return finding(images, hints)
        }
    }

    /// The warning that a certificate of `images.origins` expires soon or has expired; empty if that is not so.
    static func expiry(of images: AgentStats.Images?, _ now: Timestamp) -> [Finding] {
        guard let expiry = UpstreamCheck.expiry(images?.certificateExpiresAt, now) else { return [] }
        let file = images?.certificateFile
        return [
            Finding(
                .warning, name,
                "a certificate for an origin of images \(expiry)" + (file.map { ": \($0)" } ?? ""),
                advice: [UpstreamCheck.renewal(file, "in images.origins")])
        ]
    }

    /// The finding that the agent has no usable image cache, with the reason.
    static func unusable(_ problem: String, _ service: ServiceFacts = .another) -> Finding {
        Finding(
            .problem, name, "the cache cannot be used: \(problem)",
            advice: ["correct the problem, then:"] + service.restartCommands)
    }

    private static func finding(_ images: AgentStats.Images, _ hints: Hints) -> Finding {
        let title =
            "\(Human.count(images.entries, "image", "images")), \(Human.bytes(images.bytes)) of "
            + Human.bytes(images.maximumBytes)
        // A request whose download failed is one of the misses.
        let requests = images.hits + images.misses + images.joined
        if images.leasedBytes > images.maximumBytes / 2 {
            return Finding(
                .warning, name,
                "\(title); \(Human.bytes(images.leasedBytes)) of removed images are still in use by clients",
                advice: ["list the connected clients: \(hints.command("larder clients"))"])
        }
        let failures =
            "\(Human.count(images.failures, "download", "downloads")) failed in "
            + Human.count(requests, "request", "requests")
        // A few failed downloads are normal on the web. Failures are reported only if there are at least ten, and more
        // than one for two requests.
        if images.failures >= 10, images.failures * 2 > requests {
            return Finding(
                .warning, name, "\(title); \(failures) since the agent started",
                advice: ["request a failing image to see the error: \(hints.command("larder image get URL"))"])
        }
        return Finding(.ok, name, images.failures == 0 ? title : "\(title); \(failures)")
    }
}
