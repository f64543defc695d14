import CLinuxShims
import Foundation
import LarderJSON
import LarderClient
import LarderProtocol
import Synchronization
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Copy of the file of an image", .ownThread)
struct ImageFileCopyTests {
    private static let image = TestImage(seed: 1, size: 3_000_000)

    /// Runs `body` with a directory that has a file `copy` with the content `old`.
    private func withDirectory(_ body: (String) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            try Data("old".utf8).write(to: URL(filePath: directory + "/copy"))
            try await body(directory)
        }
    }

    /// Requests the image from the agent at `sock` and copies it to `copy`.
    private func copy(_ directory: String, timeout: Duration = .seconds(600)) async throws -> JSONValue {
        var parameters = ImageGet.Parameters(ImageReference(url: "https://a/1"))
        parameters.delivery = .descriptor
        let call = DescriptorCall(LarderClient(socket: directory + "/sock"))
        let reply = try await call.send(ImageGet.name, timeout: timeout) { parameters.write(to: &$0) }
        try ImageFileCopy(of: reply.file, ImageGet.Result(from: reply.result)).toFile(directory + "/copy")
        return reply.result
    }

    /// Returns the content of `copy`. Expects that no temporary file is left.
    private func copied(_ directory: String) throws -> [UInt8] {
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).allSatisfy { !$0.hasPrefix(".") })
        return [UInt8](try Data(contentsOf: URL(filePath: directory + "/copy")))
    }

    /// A reply with the size and digest of ``image``.
    private func reply(path: String, hasDescriptor: Bool) throws -> String {
        let image = Self.image
        let result = ImageGet.Result(
            path: path,
            image: WireImage(
                digest: try require(WireDigest(image.digest), "digest"), mediaType: "image/png", width: 16, height: 16,
                bytes: image.bytes.count),
            freshness: ImageFreshness(rawValue: "fresh"), source: .hit, ageSeconds: 0, lease: 1,
            hasDescriptor: hasDescriptor)
        return #"{"jsonrpc":"2.0","id":1,"result":"# + JSONValue.building { result.write(to: &$0) }.compactText + "}"
    }

    @Test("a file that is passed as a descriptor is copied only if its size and digest match the reply")
    func passed() async throws {
        let bytes = Self.image.bytes
        var changed = bytes
        changed[2_999_999] ^= 1
        for (content, problem) in [
            (bytes, nil), (changed, "SHA-256"), (Array(bytes.dropLast()), "2999999 bytes"), (bytes + [0], "more than"),
            ([], "0 bytes"),
        ] as [([UInt8], String?)] {
            try await withDirectory { directory in
                let blob = directory + "/blob"
                try Data(content).write(to: URL(filePath: blob))
                let agent = try FakeAgent(
                    at: directory + "/sock", passes: blob, answers: reply(path: "/none", hasDescriptor: true))
                if let problem {
                    let failure = await #expect(throws: Failure.self) { _ = try await copy(directory) }
                    #expect(failure?.status == .failure)
                    #expect(failure?.message.contains(problem) == true, "\(failure?.message ?? "")")
                    #expect(try copied(directory) == Array("old".utf8))
                } else {
                    #expect(try await copy(directory)["descriptor"] == true)
                    #expect(try copied(directory) == bytes)
                }
                #expect(agent.request["method"] == "image.get" && agent.request["params"]?["as"] == "descriptor")
            }
        }
    }

    @Test("if the reply has no descriptor, the file is read from the path in the reply")
    func path() async throws {
        try await withDirectory { directory in
            let blob = directory + "/blob"
            try Data(Self.image.bytes).write(to: URL(filePath: blob))
            _ = try FakeAgent(at: directory + "/sock", answers: reply(path: blob, hasDescriptor: false))
            #expect(try await copy(directory)["path"] == .string(blob))
            #expect(try copied(directory) == Self.image.bytes)
        }
        try await withDirectory { directory in
            let agent = try FakeAgent(at: directory + "/sock", answers: reply(path: "/none", hasDescriptor: false))
            let failure = await #expect(throws: Failure.self) { _ = try await copy(directory) }
            #expect(failure?.message.contains("/none cannot be read: No such file") == true)
            #expect(try copied(directory) == Array("old".utf8))
            #expect(agent.request["method"] == "image.get")
        }
    }

    @Test("notifications before the reply are passed to the caller, and the descriptor is that of the reply")
    func progress() async throws {
        try await withDirectory { directory in
            let blob = directory + "/blob"
            try Data("image".utf8).write(to: URL(filePath: blob))
            let lines = [
                #"{"jsonrpc":"2.0","method":"image.progress","params":{"number":1}}"#,
                #"{"jsonrpc":"2.0","method":"image.progress","params":{"number":2}}"#,
                #"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            ]
            _ = try FakeAgent(at: directory + "/sock", passes: blob, answers: lines.joined(separator: "\n"))
            let numbers = Mutex<[Int?]>([])
            let reply = try await DescriptorCall(LarderClient(socket: directory + "/sock")).send(
                ImageGet.name, timeout: .seconds(600),
                onNotification: { message in numbers.withLock { $0.append(message["params"]?["number"]?.int) } },
                params: { $0.value(JSONValue.emptyObject) })
            #expect(numbers.withLock { $0 } == [1, 2])
            #expect(reply.result == .emptyObject)
            let file = FileHandle(fileDescriptor: try #require(reply.file).descriptor, closeOnDealloc: false)
            #expect(try file.readToEnd() == Data("image".utf8))
        }
    }

    @Test("error replies, a closed connection and a timeout have the same exit statuses as for other verbs")
    func failures() async throws {
        let refusal = #"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"Not found","data":{"detail":"x"}}}"#
        for (answer, timeout, status) in [
            (refusal, .seconds(600), 3), ("{}", .seconds(600), 1), ("", .seconds(600), 5),
            (nil, .milliseconds(1), 6),
        ] as [(String?, Duration, CInt)] {
            try await withDirectory { directory in
                _ = try FakeAgent(at: directory + "/sock", answers: answer)
                let error = await #expect(throws: LarderClientError.self) {
                    _ = try await copy(directory, timeout: timeout)
                }
                let failure = try Failure(#require(error))
                #expect(failure.status.rawValue == status, "\(failure.message)")
                #expect(try copied(directory) == Array("old".utf8))
            }
        }
    }
}

/// An agent that accepts one connection and answers one request. It can pass a descriptor with the first byte of the
/// reply.
private final class FakeAgent {
    private let thread: Thread
    private let box: Box

    // Unchecked, because a semaphore orders the accesses: the thread writes `request` before it signals `isDone`, and
    // the test reads `request` after it has waited for `isDone`.
    private final class Box: @unchecked Sendable {
        var request: JSONValue = .null
        let isDone = DispatchSemaphore(value: 0)
    }

    /// - Parameters:
    ///   - file: the file whose descriptor is passed; nil for none
    ///   - answer: the reply; empty to close the connection, nil to send nothing
    init(at socket: String, passes file: String? = nil, answers answer: String?) throws {
        let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
        let result = try withUnixAddress(socket) { bind(listener.number, $0, $1) }
        guard result == 0, listen(listener.number, 1) == 0 else { throw HarnessError.system("listen") }
        let box = Box()
        self.box = box
        let number = dup(listener.number)
        thread = Thread {
            let (listener, stream) = (Descriptor(number), Descriptor(accept(number, nil, nil)))
            defer { box.isDone.signal() }
            var received: [UInt8] = []
            var chunk = [UInt8](repeating: 0, count: 4096)
            while !received.contains(UInt8(ascii: "\n")) {
                let count = recv(stream.number, &chunk, chunk.count, 0)
                guard count > 0 else { return }
                received += chunk[..<count]
            }
            box.request = (try? JSONValue(parsing: received)) ?? .null
            if let answer, answer.isEmpty { return }
            if let answer {
                let line = Array((answer + "\n").utf8)
                let passed = file.map { Descriptor(open($0, O_RDONLY | O_CLOEXEC)) }
                let descriptors = [passed?.number ?? -1]
                _ = larder_send_descriptors(stream.number, line, 1, descriptors, passed == nil ? 0 : 1)
                _ = send(stream.number, Array(line.dropFirst()), line.count - 1, CInt(MSG_NOSIGNAL))
            }
            while recv(stream.number, &chunk, chunk.count, 0) > 0 {}
            withExtendedLifetime(listener) {}
        }
        thread.start()
    }

    /// Waits until the connection is closed and returns the request.
    var request: JSONValue {
        box.isDone.wait()
        box.isDone.signal()
        return box.request
    }
}
