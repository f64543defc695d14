import Foundation
import TestSupport
import Testing

@testable import LarderSettings

@Suite("Settings in the guides")
struct GuideSettingsTests {
    @Test("each settings file in the guides is valid")
    func examples() throws {
        let guides = try FileManager.default.contentsOfDirectory(
            at: Checkout.root.appending(path: "contrib/guides"), includingPropertiesForKeys: nil)
        var count = 0
        for guide in guides where guide.pathExtension == "md" {
            let text = try String(contentsOf: guide, encoding: .utf8)
            for part in text.components(separatedBy: "```json5\n").dropFirst() {
                let block = try #require(part.components(separatedBy: "\n```").first)
                let errors = Settings.examine(
                    Array(block.utf8), maxErrors: 100, host: HostFacts(name: "kiosk", id: "0")
                ).errors.map(\.description)
                #expect(errors == [], "\(guide.lastPathComponent): \(block)")
                count += 1
            }
        }
        #expect(count >= 10)
    }
}
