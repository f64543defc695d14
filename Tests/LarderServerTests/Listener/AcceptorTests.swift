import LarderEventLoop
import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import LarderServer

@Suite("Accepting connections")
struct AcceptorTests {
    /// Returns a handler that counts each connection and sends the index of its loop to the client.
    private func greeter(_ loops: [EpollLoop], _ acceptor: Acceptor) -> Acceptor.Handler {
        let loads = acceptor.loads
        return Acceptor.Handler(
            connected: { socket, loop in
                guard let number = loops.firstIndex(where: { $0 === loop }) else { return }
                loads[number].added()
                _ = [UInt8(number)].withUnsafeBytes { send(socket, $0.baseAddress, 1, 0) }
                close(socket)
            },
            exhausted: { socket, _ in
                _ = [UInt8(0xEE)].withUnsafeBytes { send(socket, $0.baseAddress, 1, 0) }
                close(socket)
            })
    }

    private func loops(_ count: Int) throws -> [EpollLoop] { try (1...count).map { try EpollLoop(name: "test-\($0)") } }

    /// Connects and waits for the index of the serving loop.
    private func connect(_ path: String) throws -> (descriptor: CInt, loop: Int) {
        let descriptor = try connectOnly(path)
        var byte: UInt8 = 0xFF
        try #require(recv(descriptor, &byte, 1, 0) == 1)
        return (descriptor, Int(byte))
    }

    private func connectOnly(_ path: String) throws -> CInt {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
        return descriptor
    }

    @Test("a few connections stay on one loop; many are spread over all loops")
    func spread() async throws {
        let loops = try loops(3)
        let path = NSTemporaryDirectory() + "/larder-acceptor-\(getpid()).sock"
        let socket = try ListeningSocket(path: path, mode: 0o600, group: nil)
        let acceptor = Acceptor(loops)
        try await acceptor.start(socket, greeter(loops, acceptor))
        // Runs on a separate thread, because reading the index blocks.
        let descriptors = try await NIOThreadPool.singleton.runIfActive {
            var (descriptors, served) = ([CInt](), [0, 0, 0])
            for count in 1...450 {
                let (descriptor, loop) = try connect(path)
                descriptors.append(descriptor)
                served[loop] += 1
                if count == 60 { #expect(served == [60, 0, 0]) }
            }
            #expect(served.reduce(0, +) == 450)
            #expect(served.allSatisfy { $0 >= 100 }, "\(served)")
            return descriptors
        }
        for descriptor in descriptors { Glibc.close(descriptor) }
        await acceptor.close()
        socket.remove()
        for loop in loops { loop.stop() }
    }

    @Test("a connection made during a pause is queued and accepted after the resume")
    func pause() async throws {
        let loops = try loops(2)
        let path = NSTemporaryDirectory() + "/larder-pause-\(getpid()).sock"
        let socket = try ListeningSocket(path: path, mode: 0o600, group: nil)
        let acceptor = Acceptor(loops)
        try await acceptor.start(socket, greeter(loops, acceptor))
        await acceptor.pause()
        let waiting = try connectOnly(path)
        // When these calls return, each loop has counted the connections that were accepted for it.
        for load in acceptor.loads { try await load.eventLoop.submit {}.get() }
        #expect(acceptor.loads.map(\.connections) == [0, 0])
        await acceptor.resume()
        let greeting = try await NIOThreadPool.singleton.runIfActive {
            var byte: UInt8 = 0xFF
            return recv(waiting, &byte, 1, 0) == 1 ? byte : 0xFF
        }
        #expect(greeting == 0)
        Glibc.close(waiting)
        await acceptor.close()
        socket.remove()
        for loop in loops { loop.stop() }
    }
}
