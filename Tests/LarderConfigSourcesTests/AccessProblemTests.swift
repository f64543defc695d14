import ConfigTestSupport
import Foundation
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Problems of credentials and certificates")
struct AccessProblemTests {
    private let scratch: ScratchDirectory

    init() throws { scratch = try ScratchDirectory() }

    private func write(_ text: String, to name: String, mode: mode_t = 0o600) throws -> String {
        try scratch.write(text, to: name)
        #expect(chmod(scratch.at(name), mode) == 0)
        return scratch.at(name)
    }

    @Test("a token that is missing, empty, exposed or not a token is a problem, and the secret is not shown")
    func tokens() throws {
        func problems(_ path: String) -> [AccessProblem] {
            RemoteSourceSettings.http(
                HTTPSourceSettings(url: "https://127.0.0.1", access: HTTPAccess(token: .file(path)))
            )
            .accessProblems()
        }
        let missing = problems(scratch.at("none"))
        #expect(missing.map(\.isDenied) == [false])
        #expect(missing.first?.description.hasPrefix(scratch.at("none") + ": ") == true)
        #expect(problems(try write("\n", to: "empty")).count == 1)
        #expect(problems(try write("hunter2", to: "exposed", mode: 0o644)).count == 1)
        let spaced = problems(try write("hunter 2", to: "spaced"))
        #expect(spaced.first?.description.contains(scratch.at("spaced")) == true)
        #expect(spaced.first?.description.contains("hunter") == false)
        #expect(problems(try write("hunter2\n", to: "valid")) == [])
    }

    @Test("all missing certificates and passwords of a source are reported")
    func certificates() throws {
        let tls = TLSFiles(
            certificateAuthority: scratch.at("ca"), certificate: scratch.at("certificate"),
            privateKey: scratch.at("key"))
        var etcd = EtcdSourceSettings(endpoints: ["https://127.0.0.1:2379"], keys: .prefix("/a/"), tls: tls)
        etcd.user = EtcdSourceSettings.User(name: "a", password: .file(scratch.at("password")))
        let problems = RemoteSourceSettings.etcd(etcd).accessProblems()
        let names = ["password", "ca", "certificate", "key"]
        #expect(problems.count == 4)
        for (problem, name) in zip(problems, names) {
            #expect(problem.description.hasPrefix(scratch.at(name) + ": "), "\(problem)")
            #expect(problem.path == scratch.at(name))
        }
        let sse = SSESourceSettings(url: "https://127.0.0.1", access: HTTPAccess(tls: tls))
        #expect(RemoteSourceSettings.sse(sse).accessProblems().count == 3)
    }

    @Test("a certificate authority that is not a certificate is a problem")
    func garbage() throws {
        let tls = TLSFiles(certificateAuthority: try write("garbage", to: "ca"))
        let settings = HTTPSourceSettings(url: "https://127.0.0.1", access: HTTPAccess(tls: tls))
        let problems = RemoteSourceSettings.http(settings).accessProblems()
        #expect(problems.count == 1)
        #expect(problems.first?.description.contains(scratch.at("ca")) == true, "\(problems)")
    }

    @Test("sources without credentials, and credentials that systemd has not passed to this process, have no problems")
    func unchecked() {
        #expect(RemoteSourceSettings.file(FileSourceSettings(path: "/nowhere")).accessProblems() == [])
        let settings = HTTPSourceSettings(url: "http://127.0.0.1", access: HTTPAccess(token: .systemd("shop")))
        if getenv("CREDENTIALS_DIRECTORY") == nil {
            #expect(RemoteSourceSettings.http(settings).accessProblems() == [])
        }
    }

    @Test("only a file that this user may not read is denied")
    func denied() throws {
        let (hidden, readable) = (try write("", to: "hidden", mode: 0o000), try write("", to: "readable", mode: 0o444))
        try withoutPrivileges(in: scratch.path) {
            #expect(isAccessDenied(hidden))
            #expect(!isAccessDenied(readable))
            #expect(!isAccessDenied(scratch.at("none")))
        }
    }
}
