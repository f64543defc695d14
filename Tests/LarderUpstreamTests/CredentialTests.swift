import ConfigTestSupport
import Foundation
import LarderPlatform
import TestSupport
import Testing

@testable import LarderUpstream

@Suite("Credentials")
struct CredentialTests {
    private let scratch: ScratchDirectory

    init() throws { scratch = try ScratchDirectory() }

    private func write(_ text: String, mode: mode_t, to name: String = "token") throws -> String {
        try scratch.write(text, to: name)
        #expect(chmod(scratch.at(name), mode) == 0)
        return scratch.at(name)
    }

    private func refusal(of credential: Credential, in directory: String? = nil) throws -> String {
        let error = try #require(
            #expect(throws: UpstreamError.self) { try credential.read(systemd: directory) })
        #expect(error.code == .unusableFile)
        #expect(!error.message.contains("hunter2"))
        return error.message
    }

    @Test(
        "a credential file is read for each use, and its trailing line breaks are removed",
        arguments: [0o600, 0o400] as [mode_t])
    func file(_ mode: mode_t) throws {
        let path = try write("hunter2\r\n\n", mode: mode)
        #expect(try Credential.file(path).read() == "hunter2")
        try scratch.remove("token")
        _ = try write(" s p a c e ", mode: mode)
        #expect(try Credential.file(path).read() == " s p a c e ")
    }

    @Test(
        "a credential file that others can read or write is refused, and the error suggests chmod 600",
        arguments: [0o604, 0o644, 0o620, 0o666])
    func exposed(_ mode: Int) throws {
        let path = try write("hunter2", mode: mode_t(mode))
        let message = try refusal(of: .file(path))
        #expect(message.hasPrefix(path))
        #expect(message.contains("chmod 600"))
    }

    @Test("a credential file may be readable by its group only if the agent runs as root and root owns it")
    func group() throws {
        let path = try write("hunter2", mode: 0o640)
        if geteuid() == 0 {
            #expect(try Credential.file(path).read() == "hunter2")
            #expect(chown(path, 1, 1) == 0)
            #expect(try refusal(of: .file(path)).hasSuffix("; run: chown root \(path)"))
            #expect(chown(path, 54_321, 1) == 0)
            #expect(
                try refusal(of: .file(path)).hasSuffix("belongs to user 54321; run: chown root \(path)"),
                "a user without a name")
        } else {
            #expect(try refusal(of: .file(path)).contains("chmod 600"))
        }
    }

    @Test("systemd credentials are found by name, regardless of the mode of their files")
    func systemd() throws {
        _ = try write("hunter2\n", mode: 0o440, to: "upstream.token")
        #expect(try Credential.systemd("upstream.token").read(systemd: scratch.path) == "hunter2")
        #expect(try refusal(of: .systemd("other"), in: scratch.path).contains(scratch.at("other")))
        #expect(try refusal(of: .systemd("other"), in: nil).contains("LoadCredential=other:FILE"))
    }

    @Test("a credential file that is missing, empty or not UTF-8 is refused")
    func unusable() throws {
        #expect(try refusal(of: .file(scratch.at("none"))).contains("No such file"))
        #expect(try refusal(of: .file(write("\n", mode: 0o600))).contains("empty"))
        #expect(try refusal(of: .file(scratch.path)).contains("regular file"))
        let path = try write("", mode: 0o600, to: "bytes")
        try Data([0x68, 0xff]).write(to: URL(fileURLWithPath: path))
        #expect(chmod(path, 0o600) == 0)
        #expect(try refusal(of: .file(path)).contains("UTF-8"))
    }

    @Test("a token is sent with the other headers, and a token that is not a valid header value is refused")
    func request() async throws {
        let blocking = BlockingThreadPool(SharedThreads.pool)
        let access = HTTPAccess(headers: ["X-Fleet": "kiosk"], token: .file(try write("hunter2\n", mode: 0o600)))
        var request = FetchRequest(url: "http://127.0.0.1/")
        try await access.open(&request, blocking)
        #expect(request.headers.map(\.name) == ["X-Fleet", "Authorization"])
        #expect(request.headers.map(\.value) == ["kiosk", "Bearer hunter2"])
        #expect(request.tls == nil)
        _ = try write("hunter2\nX-Other: 1", mode: 0o600)
        let error = await #expect(throws: UpstreamError.self) { try await access.open(&request, blocking) }
        #expect(error?.message.hasPrefix(scratch.at("token")) == true)
        #expect(error?.message.contains("hunter2") == false)
    }

    @Test("a private key must not be readable by others, and each error begins with the path")
    func certificates() throws {
        let garbage = try write("garbage", mode: 0o644, to: "ca.pem")
        let key = try write("garbage", mode: 0o644, to: "client.key")
        #expect(try TLSFiles().read() == nil)
        func message(_ files: TLSFiles) throws -> String {
            try #require(#expect(throws: UpstreamError.self) { try files.read() }).message
        }
        #expect(
            try message(TLSFiles(certificateAuthority: garbage)).hasPrefix(
                "\(garbage) does not contain a PEM certificate"))
        #expect(try message(TLSFiles(certificateAuthority: scratch.at("none"))).hasPrefix(scratch.at("none")))
        #expect(try message(TLSFiles(certificate: garbage, privateKey: key)).hasPrefix("\(key): it contains a secret"))
    }

    @Test("the expiry of the certificates is known after they were read, and does not matter when files are compared")
    func expiry() throws {
        let certificates = Certificates(directory: scratch.path)
        try certificates.makeAuthority("ours")
        try certificates.make("soon", by: "ours", days: 1)
        let authority = TLSFiles(certificateAuthority: scratch.at("ours.pem"))
        #expect(authority.firstExpiry?.seconds == nil)
        _ = try authority.read()
        let last = try #require(authority.firstExpiry?.seconds)
        #expect(chmod(scratch.at("soon.key"), 0o600) == 0)
        let both = TLSFiles(
            certificateAuthority: scratch.at("ours.pem"), certificate: scratch.at("soon.pem"),
            privateKey: scratch.at("soon.key"))
        let copy = both
        _ = try both.read()
        let first = try #require(copy.firstExpiry?.seconds)
        #expect(authority.firstExpiry?.file == scratch.at("ours.pem"))
        #expect(copy.firstExpiry?.file == scratch.at("soon.pem"))
        let now = Int(Date().timeIntervalSince1970)
        #expect(now..<now + 2 * 86_400 ~= first)
        #expect(first < last)
        #expect(
            both
                == TLSFiles(
                    certificateAuthority: scratch.at("ours.pem"), certificate: scratch.at("soon.pem"),
                    privateKey: scratch.at("soon.key")))
        #expect(both.problems().isEmpty)
    }

    @Test("a check of the files reports a client certificate that has expired")
    func expired() throws {
        let certificates = Certificates(directory: scratch.path)
        try certificates.makeAuthority("ours")
        try certificates.make("old", by: "ours", days: -1)
        #expect(chmod(scratch.at("old.key"), 0o600) == 0)
        let files = TLSFiles(certificate: scratch.at("old.pem"), privateKey: scratch.at("old.key"))
        let problem = try #require(files.problems().first)
        #expect(problem.isExpiry && problem.path == scratch.at("old.pem"))
        #expect(problem.description.hasPrefix("\(scratch.at("old.pem")): a certificate expired on "))
    }
}
