import Foundation
import Glibc
import LarderSystemd
import TestSupport
import Testing

/// systemd passes descriptors with the numbers from 3 on. In the child process of an exit test, a pipe that the test
/// library needs may have such a number. The tests that replace these descriptors therefore print their results, and
/// the parent process compares them.
@Suite("Socket activation")
struct SocketActivationTests {
    @Test("a process without passed sockets finds no sockets")
    func none() async {
        await #expect(processExitsWith: .success) {
            unsetenv("LISTEN_PID")
            unsetenv("LISTEN_FDS")
            try #expect(SocketActivation.take() == [])
            try #expect(SocketActivation.takeStreamListeners() == [])
        }
    }

    @Test("LISTEN_FDS is ignored if LISTEN_PID names another process")
    func otherProcess() async {
        await #expect(processExitsWith: .success) {
            setenv("LISTEN_PID", "1", 1)
            setenv("LISTEN_FDS", "1", 1)
            try #expect(SocketActivation.take() == [])
        }
    }

    @Test("an invalid number of sockets is an error that names LISTEN_FDS")
    func malformed() async {
        await #expect(processExitsWith: .success) {
            setenv("LISTEN_PID", String(getpid()), 1)
            setenv("LISTEN_FDS", "many", 1)
            let error = #expect(throws: SystemdError.self) { try SocketActivation.take() }
            #expect(error?.code == .activationFailed)
            #expect(error?.reason.contains("LISTEN_FDS") == true)
        }
    }

    @Test("passed sockets keep their order and names, are close-on-exec, and are taken once")
    func passed() async throws {
        let result = await #expect(processExitsWith: .exitCode(0), observing: [\.standardOutputContent]) {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: directory) }
            let listener = fcntl(try listeningSocket(at: "\(directory)/a"), F_DUPFD, 20)
            let datagram = fcntl(socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0), F_DUPFD, 20)
            dup2(listener, 3)
            dup2(datagram, 4)
            setenv("LISTEN_PID", String(getpid()), 1)
            setenv("LISTEN_FDS", "2", 1)
            setenv("LISTEN_FDNAMES", "larder:other", 1)
            for socket in try SocketActivation.take() {
                let isCloseOnExec = fcntl(socket.descriptor, F_GETFD) & FD_CLOEXEC != 0
                print(socket.descriptor, socket.name, socket.isStreamListener, isCloseOnExec, separator: " ")
            }
            print(getenv("LISTEN_FDS") == nil, try SocketActivation.take().count)
            fflush(nil)
            _exit(0)
        }
        let output = String(decoding: try #require(result).standardOutputContent, as: UTF8.self)
        #expect(output.contains("3 larder true true\n4 other false true\ntrue 0\n"), "\(output)")
    }

    @Test("a descriptor that is not a listening Unix stream socket is rejected with its number and name")
    func refused() async throws {
        let result = await #expect(processExitsWith: .exitCode(0), observing: [\.standardOutputContent]) {
            dup2(fcntl(socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0), F_DUPFD, 20), 3)
            setenv("LISTEN_PID", String(getpid()), 1)
            setenv("LISTEN_FDS", "1", 1)
            setenv("LISTEN_FDNAMES", "larder.socket", 1)
            do {
                print(try SocketActivation.takeStreamListeners())
            } catch {
                print((error as? SystemdError)?.code.description ?? "", error)
            }
            fflush(nil)
            _exit(0)
        }
        let output = String(decoding: try #require(result).standardOutputContent, as: UTF8.self)
        #expect(output.contains("notAStreamListener descriptor 3 (\"larder.socket\")"), "\(output)")
    }

    @Test(
        "a socket from systemd-socket-activate has its name and accepts connections",
        .enabled(
            if: Rerun.succeeds(["systemd-socket-activate", "--version"]), "needs the command systemd-socket-activate"))
    func systemdSocketActivate() throws {
        if Rerun.isInside {
            let sockets = try SocketActivation.takeStreamListeners()
            #expect(sockets.map(\.name) == ["larder"])
            let connection = accept(try #require(sockets.first).descriptor, nil, nil)
            #expect(connection >= 0)
            #expect(write(connection, "hello", 5) == 5)
            close(connection)
            return
        }
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = "\(directory)/socket"
        let inner = try Rerun(
            "SocketActivationTests/systemdSocketActivate",
            through: ["systemd-socket-activate", "--listen=\(path)", "--fdname=larder"],
            passing: { ["--setenv=\($0)"] })
        #expect(inner.waitForOutput("Listening on"))

        let client = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(client) }
        #expect(try withUnixAddress(path) { connect(client, $0, $1) } == 0)
        var buffer = [UInt8](repeating: 0, count: 16)
        let count = read(client, &buffer, buffer.count)
        #expect(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == "hello")
        let (passed, output) = inner.finish()
        #expect(passed, "\(output)")
    }
}
