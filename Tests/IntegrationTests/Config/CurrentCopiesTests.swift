import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Plain copies of the current snapshots")
    struct CurrentCopiesTests {
        /// Grants all users the right to read. Without this right, copies have a stricter mode than the settings
        /// specify.
        private static let forAll = "access: { others: ['read'] }"

        private func path(_ home: AgentHome, _ namespace: String = "default") -> String {
            "\(home.directory)/current/\(namespace).json"
        }

        private func copy(_ home: AgentHome, _ namespace: String = "default") throws -> JSONValue {
            try JSONValue(parsing: try String(contentsOfFile: path(home, namespace), encoding: .utf8))
        }

        private func permissions(_ path: String) throws -> Int {
            try require(
                FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int, "mode of \(path)")
        }

        private func names(_ home: AgentHome) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: home.directory + "/current").sorted()
        }

        @Test("copies exist when the agent is ready, follow every change, and stay when the agent stops")
        func following() throws {
            try AgentHome.with(settings: "{ \(Self.forAll), namespaces: { web: {} } }") { home in
                let agent = try home.start()
                #expect(try names(home) == ["default.json", "web.json"])
                #expect(try copy(home) == [:])
                #expect(try permissions(path(home)) == 0o640)
                #expect(try permissions(home.directory + "/current") == 0o750)
                let changes = try DirectoryChanges(home.directory + "/current")
                try agent.call("config.set", ["path": "a", "value": 1])
                try changes.wait("the copy of a = 1") { try copy(home) == ["a": 1] }
                try agent.call("config.set", ["path": "b", "value": 2, "namespace": "web"])
                try changes.wait("the copy of b = 2") { try copy(home, "web") == ["b": 2] }
                #expect(try agent.status()["copy"] == ["path": .string(path(home)), "problem": .null])
                try agent.call("config.set", ["path": "a", "value": "last"])
                #expect(try agent.stop() == .exit(0))
                #expect(try copy(home) == ["a": "last"])
                #expect(try names(home) == ["default.json", "web.json"])
            }
        }

        @Test("when the agent starts, correct copies are kept and incorrect ones are replaced")
        func untouched() throws {
            let settings = "{ access: { others: ['read'] }, namespaces: { cut: {}, open: {}, other: {} } }"
            try AgentHome.with(settings: settings) { home in
                func inode(_ namespace: String) throws -> Int {
                    try require(
                        FileManager.default.attributesOfItem(atPath: path(home, namespace))[.systemFileNumber] as? Int,
                        "inode of \(namespace)")
                }
                let first = try home.start()
                #expect(try first.stop() == .exit(0))
                let names = ["default", "cut", "open", "other"]
                let before = try names.map(inode)
                try Data().write(to: URL(fileURLWithPath: path(home, "cut")))
                chmod(path(home, "open"), 0o644)
                // Incorrect content of the correct length.
                try Data("[]\n".utf8).write(to: URL(fileURLWithPath: path(home, "other")))
                _ = try home.start()
                // A copy with the correct content and an incorrect mode keeps its inode and gets the correct mode.
                #expect(try zip(names, before).map { try inode($0) == $1 } == [true, false, true, false])
                for name in names {
                    #expect(try copy(home, name) == [:])
                    #expect(try permissions(path(home, name)) == 0o640)
                }
            }
        }

        @Test(
            "during a burst of changes, readers see complete snapshots in order, and finally the last one")
        func burst() throws {
            try AgentHome.with(settings: "{ namespaces: { default: { durability: 'relaxed' } } }") { home in
                let agent = try home.start()
                let client = try agent.connect()
                let text = JSONValue.string(String(repeating: "x", count: 50_000))
                let count = 300
                try client.call("config.set", ["path": "", "value": ["n": 0, "text": text], "replaceAll": true])
                let changes = try DirectoryChanges(home.directory + "/current")
                try changes.wait("the first copy") { try copy(home)["n"] == 0 }
                var seen = 0
                for number in 1...count {
                    try client.call("config.set", ["path": "n", "value": .int(number)])
                    let copy = try copy(home)
                    let now = try require(copy["n"]?.int, "number")
                    #expect(now >= seen && copy["text"] == text)
                    seen = now
                }
                try changes.wait("the last copy") { try copy(home)["n"]?.int == count }
                client.close()
            }
        }

        @Test("copies have the mode from the settings and the group of the socket")
        func access() throws {
            let group = geteuid() == 0 ? "'12345'" : "null"
            let settings = "{ socket: { group: \(group) }, current: { mode: '0644' }, \(Self.forAll) }"
            try AgentHome.with(settings: settings) { home in
                _ = try home.start()
                #expect(try permissions(path(home)) == 0o644)
                #expect(try permissions(home.directory + "/current") == 0o755)
                let files = try [home.socket, path(home), home.directory + "/current"].map {
                    try FileManager.default.attributesOfItem(atPath: $0)[.groupOwnerAccountID] as? Int
                }
                #expect(files == [files[0], files[0], files[0]])
            }
        }

        @Test("the socket's group and other users can read a copy only if they have the right to read its namespace")
        func rights() throws {
            let group = geteuid() == 0 ? 12345 : getegid()
            let settings = """
                { socket: { group: '\(group)' }, current: { mode: '0644' }, access: { users: { '4711': ['read'] } }, \
                namespaces: { group: { access: { groups: { '\(group)': ['read'] } } }, all: { \(Self.forAll) }, \
                writers: { access: { groups: { '\(group)': ['write'], '4712': ['read'] } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                _ = try home.start()
                let modes = try ["default", "group", "all", "writers"].map { try permissions(path(home, $0)) }
                #expect(modes == [0o600, 0o640, 0o644, 0o600])
            }
        }

        @Test("users who lose the right to read cannot read the existing copy, even if no new copy can be written")
        func rightsTaken() throws {
            try AgentHome.with(settings: "{ current: { mode: '0644' }, \(Self.forAll) }") { home in
                let agent = try home.start()
                let changes = try DirectoryChanges(home.directory + "/current")
                try agent.call("config.set", ["path": "a", "value": 1])
                try changes.wait("the copy") { try copy(home) == ["a": 1] && permissions(path(home)) == 0o644 }
                // The next copy fails, as on a full disk, because its temporary file has the name of this directory.
                try home.makeDirectory("current/.default.json.tmp")
                try home.write(settings: "{ current: { mode: '0644' }, access: {} }")
                try agent.reload()
                #expect(try permissions(path(home)) == 0o600)
                try agent.call("config.set", ["path": "a", "value": 2])
                #expect(try agent.waitForLog("missing or outdated").contains("default.json.tmp"))
                #expect(try agent.stop() == .exit(0))
                #expect(try copy(home) == ["a": 1])

                // The mode of a copy from an agent with other access rules is corrected. A symbolic link in place of
                // the copy is removed, and its target is unchanged.
                #expect(chmod(path(home), 0o644) == 0)
                let second = try home.start()
                #expect(try permissions(path(home)) == 0o600)
                #expect(try second.stop() == .exit(0))
                try home.write("elsewhere", "{}")
                #expect(chmod(home.directory + "/elsewhere", 0o644) == 0)
                #expect(unlink(path(home)) == 0 && symlink(home.directory + "/elsewhere", path(home)) == 0)
                _ = try home.start()
                #expect(!home.exists(path(home)))
                #expect(try permissions(home.directory + "/elsewhere") == 0o644)
            }
        }

        @Test("copies of removed namespaces and of earlier agents are deleted, and other files stay")
        func removal() throws {
            try AgentHome.with(settings: "{ namespaces: { old: {}, web: {} } }") { home in
                try home.makeDirectory("current")
                try home.write("current/gone.json", "{}")
                try home.write("current/.web.json.tmp", "{")
                try home.write("current/README", "mine")
                let agent = try home.start()
                #expect(try names(home) == ["README", "default.json", "old.json", "web.json"])
                let changes = try DirectoryChanges(home.directory + "/current")
                try home.write(settings: "{ namespaces: { web: {}, new: {} } }")
                try agent.reload()
                try changes.wait("the change of namespaces") {
                    try names(home) == ["README", "default.json", "new.json", "web.json"]
                }
                try home.write(settings: "{ namespaces: { web: {}, old: {} } }")
                try agent.reload()
                try agent.call("config.set", ["path": "a", "value": 1, "namespace": "old"])
                try changes.wait("the copy of the restored namespace") {
                    try home.exists(path(home, "old")) && copy(home, "old") == ["a": 1]
                }
                try changes.wait("the removal of the other copy") { !home.exists(path(home, "new")) }
            }
        }

        @Test("a deleted copy directory is created again with the next snapshot")
        func vanished() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                try FileManager.default.removeItem(atPath: home.directory + "/current")
                try agent.call("config.set", ["path": "a", "value": 1])
                try agent.waitForLog("up to date again")
                #expect(try copy(home, "default") == ["a": 1])
            }
        }

        @Test("a namespace without a document from its source has no copy")
        func unavailable() throws {
            let settings = "{ namespaces: { web: { remote: { file: { path: '@/none.json' } } } } }"
            try AgentHome.with(settings: settings) { home in
                try home.makeDirectory("current")
                try home.write("current/web.json", #"{"of": "another life"}"#)
                _ = try home.start()
                #expect(try names(home) == ["default.json"])
                let changes = try DirectoryChanges(home.directory + "/current")
                try home.write("none.json", #"{"a": 1}"#)
                try changes.wait("the first copy") { home.exists(path(home, "web")) }
                #expect(try copy(home, "web") == ["a": 1])
            }
        }

        @Test("an error that prevents copies is logged once and shown in the status; changes still succeed")
        func problem() throws {
            try AgentHome.with { home in
                try home.write("current", "no directory")
                let agent = try home.start()
                for number in 1...3 {
                    try agent.call("config.set", ["path": "a", "value": .int(number)])
                }
                #expect(try agent.call("config.get", ["path": "a"])["value"] == 3)
                let problem = try require(agent.status()["copy"]?["problem"]?.string, "problem")
                #expect(problem.contains("\(home.directory)/current"))
                #expect(try agent.stop() == .exit(0))
                // The last attempt, when the agent stops, fails for the same reason and is not logged again.
                #expect(agent.log.split(separator: "\n").count { $0.contains("plain copies") } == 1, "\(agent.log)")
            }
        }

        @Test(
            "a symbolic link in place of the copy directory is not followed, and two agents do not share the directory")
        func foreign() throws {
            try AgentHome.with { home in
                try home.makeDirectory("elsewhere")
                symlink("elsewhere", home.directory + "/current")
                let first = try home.start()
                #expect(try first.status()["copy"]?["problem"]?.string != nil)
                #expect(try FileManager.default.contentsOfDirectory(atPath: home.directory + "/elsewhere") == [])
                #expect(try first.stop() == .exit(0))
                unlink(home.directory + "/current")

                let second = try home.start()
                try second.call("config.set", ["path": "mine", "value": true])
                let third = try home.start(socket: home.directory + "/other", state: home.directory + "/other-state")
                #expect(try third.status()["copy"]?["problem"]?.string?.contains("another agent") == true)
                #expect(try third.stop() == .exit(0))
                #expect(try second.stop() == .exit(0))
                #expect(try copy(home) == ["mine": true])
            }
        }

        @Test("if the settings disable copies, existing copies are deleted and no new ones are written")
        func disabled() throws {
            try AgentHome.with(settings: "{ current: { enabled: false } }") { home in
                try home.makeDirectory("current")
                try home.write("current/default.json", "{}")
                let agent = try home.start()
                #expect(!home.exists(home.directory + "/current"))
                try agent.call("config.set", ["path": "a", "value": 1])
                #expect(try agent.status()["copy"] == .null)
            }
        }
    }
}
