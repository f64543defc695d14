import ArgumentParser
import LarderClient

/// `larder image why URL`
struct ImageWhyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "why",
        abstract: "Show what a request for an image would do now, and why.",
        discussion: """
            Each rule with its numbers, in the order that they are looked at: age and lifetime (RFC 9111), what the \
            origin allows while or after that, what an earlier failure says. The network is not asked.

            EXAMPLES:
              larder image why https://img.example.org/logo.png
              larder image why https://img.example.org/logo.png --policy networkFirst
              larder image why https://img.example.org/logo.png --max-age 1h
              larder image why https://img.example.org/logo.png --json | jq -r '.rules[] | "\\(.name): \\(.text)"'
            """)

    @OptionGroup var image: ImageArgument
    @OptionGroup var policy: ImagePolicyOptions
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ImagePeek.Parameters(
            image.reference, policy: policy.policy, maximumAgeSeconds: policy.maximumAgeSeconds, explains: true)
        try await agent.printResult(of: ImagePeek.self, parameters) { result in
            ImageReport(style: .standardOutput, now: .now).text(image.reference, policy.policy, result)
        }
    }
}
