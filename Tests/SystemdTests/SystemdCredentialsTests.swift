import Foundation
import Glibc
import Systemd
import Testing

@Suite("credentials")
struct SystemdCredentialsTests {
    @Test("a credential is read whole, whatever its bytes")
    func read() throws {
        try inDirectory { directory in
            let secret = Data((0..<10_000).map { UInt8(truncatingIfNeeded: $0) })
            try secret.write(to: URL(fileURLWithPath: "\(directory)/token"))
            #expect(try SystemdCredentials(directory: directory).read("token") == Array(secret))
            #expect(try SystemdCredentials(directory: directory).read("token", maximumBytes: 10_000).count == 10_000)
        }
    }

    @Test("a credential over the limit is refused")
    func tooLarge() throws {
        try inDirectory { directory in
            try Data(count: 101).write(to: URL(fileURLWithPath: "\(directory)/token"))
            let error = #expect(throws: SystemdError.self) {
                try SystemdCredentials(directory: directory).read("token", maximumBytes: 100)
            }
            #expect(error?.code == .credentialTooLarge)
        }
    }

    @Test("a name cannot lead out of the directory")
    func names() {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "a\u{0}b", "a\nb"] {
            let error = #expect(throws: SystemdError.self) { try SystemdCredentials(directory: "/").read(name) }
            #expect(error?.code == .credentialNameInvalid)
        }
    }

    @Test("a credential that is not there, a link and a FIFO are refused with what to do")
    func unreadable() throws {
        try inDirectory { directory in
            let credentials = SystemdCredentials(directory: directory)
            symlink("/etc/passwd", "\(directory)/link")
            mkfifo("\(directory)/fifo", 0o600)
            for name in ["absent", "link", "fifo"] {
                let error = #expect(throws: SystemdError.self) { try credentials.read(name) }
                #expect(error?.code == .credentialUnreadable)
            }
            let error = #expect(throws: SystemdError.self) { try credentials.read("absent") }
            #expect(error?.systemError == ENOENT)
            #expect(error?.description.contains("LoadCredential=") == true)
        }
    }

    @Test("the directory comes from the environment, and its absence says which line the unit lacks")
    func environment() async {
        await #expect(processExitsWith: .success) {
            setenv("CREDENTIALS_DIRECTORY", "/run/credentials/larderd.service", 1)
            #expect(SystemdCredentials.ofThisProcess.directory == "/run/credentials/larderd.service")
            unsetenv("CREDENTIALS_DIRECTORY")
            let error = #expect(throws: SystemdError.self) { try SystemdCredentials.ofThisProcess.read("token") }
            #expect(error?.code == .credentialsUnavailable)
            #expect(error?.reason.contains("LoadCredential=token:") == true)
        }
    }

    private func inDirectory(_ body: (String) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try body(directory)
    }
}
