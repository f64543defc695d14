import Foundation
import Testing

@Suite("The manual pages and completions")
struct ManualPageTests {
    @Test("they are made from the programs, and are what mandoc and man want")
    func pages() async throws {
        try await TemporaryAgent.withDirectory { place in
            let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "packaging/build-docs.sh").path
            let run = try await SpawnedProgram.run(
                "/bin/bash", [script, try Products.commandLine, try Products.agent, place.directory],
                environment: ["PATH": "/usr/bin:/bin", "HOME": place.directory, "SOURCE_DATE_EPOCH": "0"])
            #expect(run.status == 0, "\(run.errors)")
            let pages = Set(try FileManager.default.contentsOfDirectory(atPath: "\(place.directory)/man"))
            // That no verb is forgotten the script sees to.
            #expect(pages.isSuperset(of: ["larder.1", "larderd.8", "larder.json.5", "larder-protocol.7"]))
            #expect(pages.isSuperset(of: ["larder-config.1", "larder-get.1", "larder-doctor.1", "larder-status.1"]))
            let page = try String(contentsOfFile: "\(place.directory)/man/larder.1", encoding: .utf8)
            #expect(page.hasPrefix(".Dd January 1, 1970\n"), "the same source makes the same pages")
            for completion in ["bash/larder", "zsh/_larder", "fish/larder.fish"] {
                let text = try String(contentsOfFile: "\(place.directory)/completions/\(completion)", encoding: .utf8)
                #expect(text.contains("doctor"), "\(completion)")
            }
        }
    }
}
