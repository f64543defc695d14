import Synchronization
import TestSupport
import Testing

@testable import LarderImages

@Suite("Progress of a download")
struct DownloadProgressTests {
    private typealias Size = DownloadProgress.Size

    private final class Sizes: Sendable {
        private let sizes = Mutex<[Size]>([])

        var all: [Size] { sizes.withLock { $0 } }

        func add(_ size: Size) { sizes.withLock { $0.append(size) } }
    }

    @Test("an observer gets the present size, and each change until it is removed")
    func observer() {
        let progress = DownloadProgress(total: ByteCounter())
        let (sizes, waiter) = (Sizes(), WaiterID(number: 1))
        progress.add(7)
        progress.observe(waiter) { sizes.add($0) }
        progress.begin(total: 100)
        progress.add(60)
        progress.discard()
        progress.discard()
        progress.removeObserver(waiter)
        progress.add(1)
        #expect(sizes.all == [Size(received: 7), Size(total: 100), Size(received: 60, total: 100), Size()])
        #expect(progress.received == 68)
    }

    @Test("the size grows to the total, and starts again after a connection that cannot be resumed")
    func download() async throws {
        let image = picture(1, size: 40_000)
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(image.count)\r\n\r\n"
        let script: RawOrigin.Script = { number, _ in
            number == 0 ? [.send(head), .send(Array(image.prefix(20_000))), .close] : [.send(head), .send(image)]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let (download, sizes) = (fixture.download(server.url), Sizes())
                download.progress.observe(WaiterID(number: 1)) { sizes.add($0) }
                _ = try await download.run()
                let all = sizes.all
                #expect(all.first == Size() && all.last == Size(received: 40_000, total: 40_000))
                // The bytes of the first response are discarded before the second request.
                #expect(all.count { $0 == Size() } == 2)
                // Each of the two responses begins at 0.
                #expect(all.count { $0 == Size(total: 40_000) } == 2)
                let second = try #require(all.lastIndex(of: Size(total: 40_000)))
                #expect(all[second...].map(\.received) == all[second...].map(\.received).sorted())
            }
        }
    }
}
