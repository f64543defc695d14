import Foundation
import TestSupport
import Testing

@Suite("The script that installs packages")
struct InstallNeedsTests {
    /// Programs that take the place of those of the system. `apt-get install` copies the policy, and then sends the
    /// signal `$SIGNAL` to the script, if there is one.
    private static let programs = [
        "id": "echo 1000", "dpkg-query": "exit 1", "swift": "exit 0", "sudo": #"echo "sudo $1" >&2; exec "$@""#,
        "apt-get":
            #"[ "$1" = install ] || exit 0; cp "$LARDER_TEST_POLICY" seen; [ -z "$SIGNAL" ] || kill -$SIGNAL $PPID"#,
    ]

    /// Runs the script.
    /// - Returns: the policy during the installation, and the one after the script has ended; nil for none
    private func install(policy: String?, signal: String) throws -> (end: Command, during: String?, after: String?) {
        try withTemporaryDirectory { directory in
            let bin = directory + "/bin"
            try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: false)
            for (name, text) in Self.programs {
                try Data("#!/bin/sh\n\(text)\n".utf8).write(to: URL(filePath: "\(bin)/\(name)"))
                chmod("\(bin)/\(name)", 0o755)
            }
            func text(_ name: String) -> String? {
                try? String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8)
            }
            try policy.map { try Data($0.utf8).write(to: URL(filePath: directory + "/policy")) }
            let end = try Command.run(
                Checkout.root.appending(path: "contrib/install-needs.sh").path, ["one", "two"],
                environment: [
                    "PATH": "\(bin):/usr/bin:/bin", "SIGNAL": signal, "LARDER_TEST_POLICY": directory + "/policy",
                    "TMPDIR": directory,
                ],
                directory: directory)
            let left = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasPrefix("larder-") }
            #expect(left.isEmpty)
            return (end, text("seen"), text("policy"))
        }
    }

    @Test(
        "an interrupted installation leaves no policy behind, and the packages are named before the first sudo",
        arguments: [("", 0), ("TERM", 143), ("INT", 130), ("HUP", 129)])
    func interrupted(signal: String, status: CInt) throws {
        let (end, during, after) = try install(policy: nil, signal: signal)
        #expect(end.status == status, "\(end.log)")
        #expect(end.log.hasPrefix("installing: one two\nsudo "), "\(end.log)")
        #expect(during == "#!/bin/sh\nexit 101\n")
        #expect(after == nil)
    }

    @Test("a policy of the system is kept", arguments: ["", "TERM"])
    func kept(signal: String) throws {
        let (_, during, after) = try install(policy: "mine", signal: signal)
        #expect(during == "mine")
        #expect(after == "mine")
    }
}

@Suite("The test of the package in .ci/run")
struct ContainerCheckTests {
    @Test(
        "a container that cannot run is a failure, unless a variable permits it",
        arguments: [(0, "", 0), (1, "1", 1), (77, "", 1), (77, "1", 0)] as [(Int, String, CInt)])
    func status(container: Int, permission: String, expected: CInt) throws {
        let script = try String(contentsOf: Checkout.root.appending(path: ".ci/run"), encoding: .utf8)
        let start = try #require(script.range(of: "check_in_container() {\n"))
        let end = try #require(script.range(of: "\n}\n", range: start.upperBound..<script.endIndex))
        try withTemporaryDirectory { directory in
            let packaging = directory + "/packaging"
            try FileManager.default.createDirectory(atPath: packaging, withIntermediateDirectories: false)
            let test = packaging + "/test-in-container.sh"
            try Data("#!/bin/sh\nexit \(container)\n".utf8).write(to: URL(filePath: test))
            chmod(test, 0o755)
            let function = "set -euo pipefail; work=.\n" + script[start.lowerBound..<end.upperBound]
            let done = try Command.run(
                "/bin/bash", ["-c", function + "check_in_container"],
                environment: ["PATH": "/usr/bin:/bin", "LARDER_CI_ALLOW_NO_CONTAINER": permission],
                directory: directory)
            #expect(done.status == expected, "\(done.log)")
            #expect(done.log.contains("LARDER_CI_ALLOW_NO_CONTAINER=1") == (container == 77 && permission.isEmpty))
        }
    }
}
