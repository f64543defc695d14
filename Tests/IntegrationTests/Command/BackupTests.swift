import Foundation
import LarderDigest
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Backups and restored state directories", .ownThread, .timeLimit(.minutes(30)))
struct BackupTests {
    private func copy(_ from: String, to target: String) throws {
        #expect(try Command.run("/bin/cp", ["-a", from, target]).status == 0)
    }

    @Test(
        "after a copy of the state directory is restored, clients that resume get the current document",
        arguments: [true, false])
    func restoredCopy(sendsEpoch: Bool) throws {
        try AgentHome.with { home in
            var agent = try home.start()
            try agent.connect().call("config.set", ["path": "b", "value": 1])
            #expect(try agent.stop() == .exit(0))
            try copy(home.state, to: home.directory + "/copy")

            agent = try home.start()
            let lost = try agent.connect().call("config.set", ["path": "a", "value": "before"])
            #expect(try agent.stop() == .exit(0))
            try FileManager.default.removeItem(atPath: home.state)
            try copy(home.directory + "/copy", to: home.state)

            agent = try home.start()
            let client = try agent.connect()
            let after = try client.call("config.set", ["path": "a", "value": "after"])
            #expect(after["revision"] != lost["revision"])
            #expect(after["epoch"] != lost["epoch"])
            #expect(try client.call("config.get", ["path": "b"])["value"] == 1)
            var since: [(String, JSONValue)] = [("since", lost["revision"] ?? 0)]
            if sendsEpoch { since.append(("epoch", lost["epoch"] ?? "")) }
            try client.call("config.subscribe", .object(since))
            #expect(try client.event()["value"]?["a"] == "after")
            #expect(agent.log.contains("new epoch"))
        }
    }

    @Test("a backup of a running agent has every acknowledged change, and restoring it starts a new epoch")
    func backup() throws {
        let settings = #"{ namespaces: { shop: { secrets: ["key"] }, empty: {} } }"#
        try AgentHome.with(settings: settings) { home in
            let file = home.directory + "/larder.backup"
            let agent = try home.start()
            let client = try agent.connect()
            for number in 1...30 {
                try client.call("config.set", ["path": "n", "value": .int(number)])
                try client.call("config.set", ["namespace": "shop", "path": "key", "value": .int(number)])
            }
            let before = try client.call("config.get")
            try client.call("config.pin", ["revision": before["revision"] ?? 0])
            // Changes continue during the backup.
            let backup = try home.startLarder("backup", file)
            var last = 30
            while backup.pollEnd() == nil {
                last += 1
                try client.call("config.set", ["path": "n", "value": .int(last)])
            }
            #expect(try backup.waitForEnd() == .exit(0))
            var status = stat()
            #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
            try client.call("config.set", ["path": "n", "value": "after the backup"])

            let refused = try home.larder("restore", file, "--state-directory", home.state)
            #expect(refused.status == 1)
            #expect(refused.log.contains("pid \(agent.process.pid)") && refused.log.contains("systemctl"))
            #expect(try client.call("config.get", ["path": "n"])["value"] == "after the backup")
            #expect(try agent.stop() == .exit(0))

            #expect(try home.larder("restore", file, "--state-directory", home.state).status == 0)
            #expect(home.exists(home.state + "/config.before-restore/default"))
            let restored = try home.start()
            let value = try restored.call("config.get", ["path": "n"])
            let saved = try require(value["value"]?.int, "a number")
            #expect((30...last).contains(saved))
            #expect(value["epoch"] != before["epoch"])
            #expect(try restored.call("config.get", ["namespace": "shop", "path": "key"])["value"] == 30)
            // The backup includes the history and its pins.
            let list = try require(try restored.call("config.history")["generations"], "generations")
            let generations = Array(list.elements)
            #expect(generations.first { $0["revision"] == before["revision"] }?["pinned"] == true)
            let old = try require(generations.last?["revision"], "a revision")
            #expect(try restored.call("config.rollback", ["revision": old])["changed"] == true)
            let older = try require(try restored.call("config.get", ["path": "n"])["value"]?.int, "a number")
            #expect(older < saved)
            #expect(try restored.stop() == .exit(0))

            // A restore succeeds if the directory of `--state-directory` exists, and fails if it does not.
            let other = home.directory + "/other"
            #expect(try home.larder("restore", file, "--state-directory", other).status == 1)
            try home.makeDirectory("other")
            #expect(try home.larder("restore", file, "--state-directory", home.state).status == 0)
            #expect(
                try home.larder("restore", file, "--state-directory", other, "--json").text.contains(#""namespaces":3"#)
            )
            #expect(home.exists(other + "/config/shop/generations"))
        }
    }

    @Test("restore refuses a damaged or incomplete backup and leaves the state unchanged", arguments: [0, 1, 2, 3])
    func damaged(kind: Int) throws {
        try AgentHome.with { home in
            let file = home.directory + "/larder.backup"
            let agent = try home.start()
            try agent.connect().call("config.set", ["path": "n", "value": 1])
            #expect(try home.larder("backup", file).status == 0)
            #expect(try agent.stop() == .exit(0))
            var text = try String(contentsOfFile: file, encoding: .utf8)
            switch kind {
            case 0: text.removeLast(10)
            case 1: text = text.replacing(#""namespace":"default""#, with: #""namespace":"../../x""#)
            case 2: text = text.split(separator: "\n").dropLast().joined(separator: "\n") + "\n"
            default: text = text.replacing(#""larderBackup":1"#, with: #""larderBackup":2"#)
            }
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            let refused = try home.larder("restore", file, "--state-directory", home.state)
            #expect(refused.status == 1 && refused.log.contains(file))
            #expect(!home.exists(home.state + "/config.before-restore"))
            #expect(try home.start().call("config.get", ["path": "n"])["value"] == 1)
        }
    }

    /// Makes a backup of two namespaces, applies `change` to all lines of the backup except the last, and writes the
    /// new SHA-256 to the last line. Returns the path of the backup.
    private func forge(_ home: AgentHome, _ change: (inout [String]) -> Void) throws -> String {
        let file = home.directory + "/larder.backup"
        let agent = try home.start()
        try agent.connect().call("config.set", ["path": "n", "value": 1])
        try agent.connect().call("config.set", ["namespace": "shop", "path": "n", "value": 2])
        #expect(try home.larder("backup", file).status == 0)
        #expect(try agent.stop() == .exit(0))
        var lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").dropLast().map(String.init)
        change(&lines)
        let content = lines.map { $0 + "\n" }.joined()
        let digest = SHA256.hash(content.utf8).map { String(format: "%02x", Int($0)) }.joined()
        try home.write("larder.backup", content + "{\"sha256\":\"\(digest)\"}\n")
        return file
    }

    @Test(
        "restore names the line of a backup that is inconsistent, even if the SHA-256 of the backup is correct",
        arguments: ["text", "content", "revision", "namespace", "twice"])
    func forged(kind: String) throws {
        try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
            let file = try forge(home) { lines in
                let parts = lines[1].split(separator: "\"revision\":", maxSplits: 1)
                let rest = parts[1].drop { $0.isNumber }
                switch kind {
                case "text": lines[1] = #"{"namespace":"default","revision":1,"generation":"x"}"#
                case "content": lines[1] = lines[1].replacing("publishedAt", with: "publishedat")
                case "revision": lines[1] = parts[0] + "\"revision\":4711" + rest
                case "namespace":
                    lines[1] = lines[1].replacing(#"{"namespace":"default""#, with: #"{"namespace":"other""#)
                default: lines.insert(lines[1], at: 2)
                }
            }
            let refused = try home.larder("restore", file, "--state-directory", home.state)
            #expect(refused.status == 1)
            #expect(refused.log.contains("\(file):\(kind == "twice" ? 3 : 2): "), "\(refused.log)")
            #expect(!home.exists(home.state + "/config.before-restore"))
            #expect(!home.exists(home.state + "/config.restoring"))
            #expect(try home.start().call("config.get", ["path": "n"])["value"] == 1)
        }
    }

    @Test(
        "restore refuses a snapshot with an invalid JSON member, even if every SHA-256 in the backup is correct",
        arguments: [
            (#""digest":"[0-9a-f]+""#, #""digest":"x""#), (#""journal":\d+"#, #""journal":9007199254740992"#),
            (#""released":\d+"#, #""released":9007199254740992"#),
            (#""layers":\{"#, #""layers":{"overrides":5,"#), (#""layers":\{"#, #""layers":{"remote":[],"#),
            (#""override":\[.*\]"#, #""override":{}"#), (#""layers":\{"#, #""published":5,"layers":{"#),
        ])
    func forgedMember(pattern: String, replacement: String) throws {
        try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
            let file = try forge(home) { lines in
                guard let value = try? JSONValue(parsing: Array(lines[1].utf8)), let text = value["generation"]?.string
                else { return }
                let parts = text.split(separator: "\n").map(String.init)
                let body = parts[1].replacingOccurrences(
                    of: pattern, with: replacement.replacing("\\", with: "\\\\"), options: .regularExpression)
                #expect(body != parts[1], "\(parts[1])")
                let digest = SHA256.hash(body.utf8).map { String(format: "%02x", Int($0)) }.joined()
                let forged = JSONValue.string("{\"format\":1,\"sha256\":\"\(digest)\"}\n\(body)\n")
                lines[1] =
                    JSONValue.object(
                        value.members.map { ($0.name, $0.name == "generation" ? forged : $0.value) }
                    ).compactText
            }
            let refused = try home.larder("restore", file, "--state-directory", home.state)
            #expect(refused.status == 1)
            #expect(refused.log.contains("\(file):2: a member of the snapshot is missing"), "\(refused.log)")
            #expect(!home.exists(home.state + "/config.before-restore"))
        }
    }

    @Test("restore refuses a backup without snapshots, unless the backup lists omitted namespaces")
    func withoutSnapshots() throws {
        try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
            let file = try forge(home) { $0 = [$0[0]] }
            let refused = try home.larder("restore", file, "--state-directory", home.state)
            #expect(refused.status == 1)
            #expect(refused.log.contains("\(file) contains no snapshot"), "\(refused.log)")
            #expect(!home.exists(home.state + "/config.before-restore"))
        }
        var backup = BackupFile(version: "1", createdAt: "", stateDirectory: "/s")
        backup.omitted = ["shop"]
        #expect(try BackupFile(decoding: backup.encoded(), name: "b") == backup)
    }

    @Test("a restore that fails while it writes leaves no files in the state directory")
    func failedWrite() throws {
        try AgentHome.with { home in
            try home.makeDirectory("state")
            var backup = BackupFile(version: "1", createdAt: "", stateDirectory: home.state)
            let generation = BackupFile.Generation(namespace: "default", revision: 1, text: "")
            backup.generations = [generation, generation]
            #expect(throws: Failure.self) { try StateRestore(directory: home.state).run(backup) }
            #expect(!home.exists(home.state + "/config.restoring"))
            #expect(!home.exists(home.state + "/config"))
        }
    }

    @Test("restore refuses a lock file that is a hard link, as the agent does, and changes nothing")
    func linkedLock() throws {
        try AgentHome.with { home in
            try home.makeDirectory("state")
            try home.write("other", "content")
            #expect(link(home.directory + "/other", home.state + "/lock") == 0)
            var backup = BackupFile(version: "1", createdAt: "", stateDirectory: home.state)
            backup.generations = [BackupFile.Generation(namespace: "default", revision: 1, text: "")]
            let failure = #expect(throws: Failure.self) { try StateRestore(directory: home.state).run(backup) }
            #expect(failure?.message.contains("is a hard link to a file with another name; remove it") == true)
            #expect(!home.exists(home.state + "/config"))
            #expect(try String(contentsOfFile: home.directory + "/other", encoding: .utf8) == "content")
        }
    }

    @Test("restore refuses the state directory that the backup names, unless --state-directory names it too")
    func foreignDirectory() throws {
        try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
            let file = try forge(home) { _ in }
            let refused = try home.larder("restore", file)
            #expect(refused.status == 2)
            #expect(refused.log.contains("--state-directory \(home.state)"), "\(refused.log)")
            #expect(!home.exists(home.state + "/config.before-restore"))
        }
    }

    @Test("the default state directory of restore depends on the user and the environment")
    func defaultDirectory() {
        let variables = ["HOME": "/home/u", "XDG_STATE_HOME": "/s"]
        #expect(StateLocation.defaultDirectory(isRoot: true) { variables[$0] } == "/var/lib/larder")
        #expect(StateLocation.defaultDirectory(isRoot: false) { variables[$0] } == "/s/larder")
        #expect(
            StateLocation.defaultDirectory(isRoot: false) { $0 == "HOME" ? "/home/u" : "relative" }
                == "/home/u/.local/state/larder")
        #expect(StateLocation.defaultDirectory(isRoot: false) { _ in nil } == nil)
    }

    @Test(
        "a backup lists the namespaces that the user who makes it cannot read, and restore reports these namespaces",
        .needsRoot)
    func omitted() throws {
        let all = #"["read", "administer", "secrets"]"#
        try AgentHome.with(
            settings: "{ access: { others: \(all) }, socket: { mode: '0666' }, namespaces: { "
                + "shop: { access: { others: ['write'] } }, hidden: { access: { others: [] } } } }"
        ) { home in
            let agent = try home.start()
            try agent.connect().call("config.set", ["path": "n", "value": 1])
            let complete = try home.larder("backup", home.directory + "/complete", "--json")
            #expect(complete.log == "" && complete.text.contains(#""omitted":[],"complete":true"#), "\(complete.text)")
            chmod(home.directory, 0o777)
            let file = home.directory + "/larder.backup"
            let partial = try Command.run(
                "setpriv",
                ["--reuid=4711", "--regid=4711", "--clear-groups", Products.commandLine, "backup", file, "--json"],
                environment: home.clientEnvironment)
            #expect(partial.status == 0, "\(partial.log)")
            #expect(partial.text.contains(#""omitted":["shop"],"complete":false"#), "\(partial.text)")
            #expect(partial.log.contains("shop") && !partial.log.contains("hidden"), "\(partial.log)")
            #expect(try agent.stop() == .exit(0))
            let restored = try home.larder("restore", file, "--state-directory", home.state)
            #expect(restored.status == 0)
            #expect(restored.log.contains("shop") && restored.log.contains("config.before-restore"), "\(restored.log)")
        }
    }
}
