import Foundation
import TestSupport
import Testing

@Suite("Manual pages and completions", .ownThread)
struct ManualPageTests {
    @Test("the generator makes manual pages and completions from the programs")
    func pages() throws {
        try withTemporaryDirectory { directory in
            let script = Checkout.root.appending(path: "packaging/build-docs.sh").path
            let run = try Command.run(
                "/bin/bash", [script, Products.commandLine, Products.agent, directory],
                environment: ["PATH": "/usr/bin:/bin", "HOME": directory, "SOURCE_DATE_EPOCH": "0"])
            #expect(run.status == 0, "\(run.log)")
            let pages = Set(try FileManager.default.contentsOfDirectory(atPath: "\(directory)/man"))
            // The script itself checks that every verb has a page.
            #expect(pages.isSuperset(of: ["larder.1", "larderd.8", "larder.json.5", "larder-protocol.7"]))
            #expect(pages.isSuperset(of: ["larder-config.1", "larder-get.1", "larder-doctor.1", "larder-status.1"]))
            let page = try String(contentsOfFile: "\(directory)/man/larder.1", encoding: .utf8)
            #expect(page.hasPrefix(".Dd January 1, 1970\n"), "the page does not have the date of SOURCE_DATE_EPOCH")
            for completion in ["bash/larder", "zsh/_larder", "fish/larder.fish"] {
                let text = try String(contentsOfFile: "\(directory)/completions/\(completion)", encoding: .utf8)
                #expect(text.contains("doctor"), "\(completion)")
            }
        }
    }
}
