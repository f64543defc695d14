import Foundation
import Glibc
import LarderSystemd
import TestSupport
import Testing

/// systemd passes descriptors with the numbers from 3 on. In the child process of an exit test, a pipe that the test
/// library needs may have such a number. The tests with passed descriptors therefore run again in a process that gets
/// the descriptors when it starts.
@Suite("Socket activation")
struct SocketActivationTests {
    @Test("a process without passed sockets finds no sockets")
    func none() async {
        await #expect(processExitsWith: .success) {
            unsetenv("LISTEN_PID")
            unsetenv("LISTEN_FDS")
            try #expect(SocketActivation.take() == [])
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
            #expect(error?.reason.contains("LISTEN_FDS") == true)
        }
    }

    @Test("passed sockets keep their order and names, are close-on-exec, and are taken once")
    func passed() throws {
        if Rerun.isInside {
            let sockets = try SocketActivation.take()
            #expect(sockets.map(\.descriptor) == [3, 4])
            #expect(sockets.map(\.name) == ["larder", "other"])
            for socket in sockets { #expect(fcntl(socket.descriptor, F_GETFD) & FD_CLOEXEC != 0) }
            #expect(getenv("LISTEN_FDS") == nil)
            #expect(try SocketActivation.take().isEmpty)
            return
        }
        let directory = try TemporaryDirectory()
        let listener = Descriptor(try listeningSocket(at: directory.path + "/a"))
        let other = Descriptor(try listeningSocket(at: directory.path + "/b"))
        try Rerun.expectSuccess(of: "SocketActivationTests/passed", passing: [listener, other], names: "larder:other")
    }

    @Test("a descriptor that is not a listening Unix stream socket is rejected with its number and name")
    func refused() throws {
        if Rerun.isInside {
            let error = #expect(throws: SystemdError.self) { try SocketActivation.take() }
            #expect(error.map { "\($0)" }?.contains("descriptor 3 (\"larder.socket\")") == true)
            return
        }
        let socket = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
        try Rerun.expectSuccess(of: "SocketActivationTests/refused", passing: [socket], names: "larder.socket")
    }

    @Test(
        "a socket from systemd-socket-activate has its name and accepts connections",
        .enabled(
            if: Rerun.succeeds(["systemd-socket-activate", "--version"]), "needs the command systemd-socket-activate"))
    func systemdSocketActivate() throws {
        if Rerun.isInside {
            let sockets = try SocketActivation.take()
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
