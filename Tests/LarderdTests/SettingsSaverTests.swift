import Logging
import Synchronization
import Testing

@testable import larderd

@Suite("Saving of settings")
struct SettingsSaverTests {
    private struct Failure: Error, CustomStringConvertible { let description = "the disk is full" }

    private func saver(_ report: @escaping @Sendable (String?) -> Void) -> SettingsSaver {
        SettingsSaver(
            pause: .milliseconds(1), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, report: report)
    }

    @Test("settings that cannot be saved are saved again until that succeeds")
    func retry() async throws {
        let reports = Mutex<[String?]>([])
        let attempts = Mutex(0)
        let retry = await saver { problem in reports.withLock { $0.append(problem) } }.save {
            if attempts.withLock({ attempts in
                attempts += 1
                return attempts < 3
            }) {
                throw Failure()
            }
        }
        try #require(retry != nil)
        await retry?.value
        #expect(reports.withLock { $0 } == ["the disk is full", "the disk is full", nil])
    }

    @Test("settings that were saved are not saved again")
    func success() async {
        let reports = Mutex<[String?]>([])
        #expect(await saver { problem in reports.withLock { $0.append(problem) } }.save {} == nil)
        #expect(reports.withLock { $0 } == [nil])
    }

    @Test("a cancelled retry ends although the settings cannot be saved")
    func cancellation() async {
        let retry = await saver { _ in }.save { throw Failure() }
        retry?.cancel()
        await retry?.value
    }
}
