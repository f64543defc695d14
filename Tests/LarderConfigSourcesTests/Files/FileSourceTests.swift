import ConfigTestSupport
import Foundation
import LarderConfigModel
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Deliveries of a file source", .timeLimit(.minutes(15)))
struct FileSourceTests {
    /// Waits for a delivery that fulfills a condition.
    private func expect(
        _ documents: SourceDocuments, _ condition: (SourceDelivery) -> Bool
    ) async throws -> SourceDelivery {
        for await delivery in documents where condition(delivery) { return delivery }
        throw HarnessError("the sequence ended")
    }

    private func document(_ delivery: SourceDelivery) -> SourceDocument? {
        guard case .success(.document(let document)) = delivery.result else { return nil }
        return document
    }

    @Test("the content is delivered at the start and after each change, and a failure when it cannot be read")
    func changes() async throws {
        let scratch = try ScratchDirectory()
        try scratch.write("{\"n\":0}", to: "c")
        let watcher = FileWatcher(clock: ManualClock(skippingSleepsBelow: .seconds(1)))
        let source = FileSource(
            configuration: FileSourceSettings(path: scratch.at("c")), watcher: watcher,
            blocking: BlockingThreadPool(.singleton))
        let validator = Mutex<Validator?>(nil)
        let documents = try #require(source.documents(after: .zero) { validator.withLock { $0 } })
        var order = 0
        for number in 0..<4 {
            if number > 0 { try scratch.replace("c", with: "{\"n\":\(number)}") }
            let delivery = try await expect(documents) { document($0)?.value == ["n": .int(number)] }
            let found = try #require(document(delivery))
            #expect(delivery.order ?? 0 > order, "a later read has a higher order")
            // A fetch whose read begins after that of a delivery is newer.
            let response = try await source.fetch(ifChangedFrom: found.validator, reason: .requested)
            guard case .notModified = response else { throw HarnessError("the content has changed") }
            order = try #require(source.fetchOrder)
            #expect(order > delivery.order ?? 0)
            validator.withLock { $0 = found.validator }
        }
        try FileManager.default.removeItem(atPath: scratch.at("c"))
        let failure = try await expect(documents) { if case .failure = $0.result { true } else { false } }
        let error = #expect(throws: ConfigError.self) { try failure.result.get() }
        #expect(error?.code == .upstreamFailed)
        #expect(error?.message.contains(scratch.at("c")) == true)
        try scratch.write("{\"n\":3}", to: "c")
        // The file may be read before its content is written.
        _ = try await expect(documents) { if case .success(.notModified) = $0.result { true } else { false } }
        await watcher.stop()
    }
}
