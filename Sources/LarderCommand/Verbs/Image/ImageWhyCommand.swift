import ArgumentParser
import LarderClientCore

/// `larder image why URL`
struct ImageWhyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "why",
        abstract: "Show how a request for an image would be handled now, and why.",
        discussion: """
            Lists the rules with their numbers, in the order in which they are applied: age and lifetime (RFC 9111), \
            use of stale images (RFC 5861), and recent failures of the origin. The command does not use the network.

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
