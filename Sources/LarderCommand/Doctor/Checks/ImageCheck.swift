import LarderClientCore

/// Checks that the image cache has space and that requests for images succeed.
enum ImageCheck {
    static let name = "images"

    static func findings(
        _ facts: AgentFacts, _ service: ServiceFacts = .another, _ hints: Hints = Hints()
    ) -> [Finding] {
        if let problem = facts.info.imageProblem { return [unusable(problem, service)] }
        guard facts.info.imageDirectory != nil else {
            return [Finding(.ok, name, "disabled in the settings (images.enabled)")]
        }
        switch facts.stats {
        case .failure(let failure): return [Finding(.skipped, name, "not checked: \(failure.message)")]
        case .success(let stats):
            guard let images = stats.images else { return [Finding(.ok, name, "disabled in the settings")] }
            return [finding(images, hints)]
        }
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
