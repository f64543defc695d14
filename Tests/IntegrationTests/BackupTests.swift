import Foundation
import JSON
import TestSupport
import Testing

@Suite("Backups and restored state directories", .ownThread, .timeLimit(.minutes(3)))
struct BackupTests {
    private func copy(_ from: String, to target: String) throws {
        #expect(try Command.run("/bin/cp", ["-a", from, target]).status == 0)
    }

    @Test(
        "a client that resumes after a copy of the state was restored gets the document that is current",
        arguments: [true, false])
    func restoredCopy(sendsEpoch: Bool) throws {
        try AgentHome.with { home in
            var agent = try home.start()
            try agent.connect().call("config.set", ["path": "b", "value": 1])
            #expect(try agent.stop() == .exit(0))
            try copy(home.state, to: home.directory + "/copy")

            agent = try home.start()
            let held = try agent.connect().call("config.set", ["path": "a", "value": "before"])
            #expect(try agent.stop() == .exit(0))
            try FileManager.default.removeItem(atPath: home.state)
            try copy(home.directory + "/copy", to: home.state)

            agent = try home.start()
            let client = try agent.connect()
            let after = try client.call("config.set", ["path": "a", "value": "after"])
            #expect(after["revision"] != held["revision"])
            #expect(after["epoch"] != held["epoch"])
            #expect(try client.call("config.get", ["path": "b"])["value"] == 1)
            var since: [(String, JSONValue)] = [("since", held["revision"] ?? 0)]
            if sendsEpoch { since.append(("epoch", held["epoch"] ?? "")) }
            try client.call("config.subscribe", .object(since))
            #expect(try client.event()["value"]?["a"] == "after")
            #expect(agent.log.contains("new epoch"))
        }
    }

    @Test("a backup of a running agent has every acknowledged change, and a restored one begins a new epoch")
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
            // Changes go on while the backup is made.
            let backup = try home.startLarder("backup", file)
            var last = 30
            while backup.endIfEnded() == nil {
                last += 1
                try client.call("config.set", ["path": "n", "value": .int(last)])
            }
            #expect(try backup.waitForEnd() == .exit(0))
            var status = stat()
            #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
            try client.call("config.set", ["path": "n", "value": "after the backup"])

            let refused = try home.larder("restore", file)
            #expect(refused.status == 1)
            #expect(refused.log.contains("pid \(agent.process.pid)") && refused.log.contains("systemctl"))
            #expect(try client.call("config.get", ["path": "n"])["value"] == "after the backup")
            #expect(try agent.stop() == .exit(0))

            #expect(try home.larder("restore", file).status == 0)
            #expect(home.exists(home.state + "/config.before-restore/default"))
            let restored = try home.start()
            let value = try restored.ask("config.get", ["path": "n"])
            let saved = try require(value["value"]?.int, "a number")
            #expect((30...last).contains(saved))
            #expect(value["epoch"] != before["epoch"])
            #expect(try restored.ask("config.get", ["namespace": "shop", "path": "key"])["value"] == 30)
            // The history came along, pins included.
            let list = try require(try restored.ask("config.history")["generations"], "generations")
            let generations = Array(list.elements)
            #expect(generations.first { $0["revision"] == before["revision"] }?["pinned"] == true)
            let old = try require(generations.last?["revision"], "a revision")
            #expect(try restored.ask("config.rollback", ["revision": old])["changed"] == true)
            let older = try require(try restored.ask("config.get", ["path": "n"])["value"]?.int, "a number")
            #expect(older < saved)
            #expect(try restored.stop() == .exit(0))

            // Once more, over a state that was restored, and to another place.
            let other = home.directory + "/other"
            #expect(try home.larder("restore", file, "--state-directory", other).status == 1)
            try home.makeDirectory("other")
            #expect(try home.larder("restore", file).status == 0)
            #expect(
                try home.larder("restore", file, "--state-directory", other, "--json").text.contains(#""namespaces":3"#)
            )
            #expect(home.exists(other + "/config/shop/generations"))
        }
    }

    @Test("a backup that is damaged or incomplete is refused, and the state stays", arguments: [0, 1, 2, 3])
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
            let refused = try home.larder("restore", file)
            #expect(refused.status == 1 && refused.log.contains(file))
            #expect(!home.exists(home.state + "/config.before-restore"))
            #expect(try home.start().ask("config.get", ["path": "n"])["value"] == 1)
        }
    }
}
