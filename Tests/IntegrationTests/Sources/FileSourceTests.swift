import Foundation
import LarderJSON
import Testing

extension Integration {
    @Suite("File source")
    struct FileSourceTests {
        private static let settings =
            "{ namespaces: { default: { remote: { file: { path: '@/mount/config.json' } } } } }"

        /// Runs `body` with an agent whose source is `mount/config.json`, and a client that subscribes to `n`.
        private func withSource(_ body: (AgentHome, AgentProcess, LineClient) throws -> Void) throws {
            try AgentHome.with(settings: Self.settings) { home in
                try home.makeDirectory("mount")
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.subscribe", ["n"])
                try body(home, agent, client)
            }
        }

        @Test("creation of the file, edits in place and renames over it are published")
        func edits() throws {
            try withSource { home, agent, client in
                let path = home.directory + "/mount/config.json"
                for value in 1...10 {
                    let text = "{\"n\":\(value)}"
                    if value % 2 == 0 {
                        try text.write(toFile: path, atomically: false, encoding: .utf8)
                    } else {
                        try home.write("mount/config.json", text)
                    }
                    while try client.event()["value"]?.int != value {}
                }
                #expect(try agent.status()["state"] == "fresh")
            }
        }

        @Test("each replacement of the ..data link of a ConfigMap is published")
        func configMap() throws {
            try withSource { home, _, client in
                let mount = home.directory + "/mount"
                try FileManager.default.createSymbolicLink(
                    atPath: mount + "/config.json", withDestinationPath: "..data/config.json")
                for value in 1...10 {
                    try home.makeDirectory("mount/..generation\(value)")
                    try home.write("mount/..generation\(value)/config.json", "{\"n\":\(value)}")
                    symlink("..generation\(value)", mount + "/..data_tmp")
                    rename(mount + "/..data_tmp", mount + "/..data")
                    try? FileManager.default.removeItem(atPath: mount + "/..generation\(value - 1)")
                    while try client.event()["value"]?.int != value {}
                }
            }
        }

        @Test("a truncated, invalid or missing file keeps the last good snapshot, and the status has the error")
        func lastGoodStays() throws {
            try withSource { home, agent, client in
                try home.write("mount/config.json", #"{"n":1}"#)
                while try client.event()["value"]?.int != 1 {}
                let path = home.directory + "/mount/config.json"
                let revision = try agent.status()["revision"]
                for (text, error) in [
                    ("{\"n\":", "rejected"), ("", "upstreamFailed"), ("[1]", "rejected"), (nil, "upstreamFailed"),
                ] {
                    if let text {
                        try text.write(toFile: path, atomically: false, encoding: .utf8)
                    } else {
                        unlink(path)
                    }
                    #expect(try client.refusal("config.refresh").name == error)
                    // A poll may be reading the file, and the state is `refreshing` until it has finished.
                    var status = try agent.status()
                    while status["state"] == "refreshing" { status = try agent.status() }
                    #expect(status["state"] == "stale")
                    #expect(status["lastError"]?["name"]?.string == error)
                    #expect(status["revision"] == revision)
                    #expect(try client.call("config.get", ["n"])["value"] == 1)
                }
                try home.write("mount/config.json", #"{"n":2}"#)
                #expect(try client.event()["value"] == 2)
                #expect(try agent.status()["lastError"]?.isNull == true)
            }
        }

        @Test("an invalid file is detected without a request, and the last value is still served")
        func detectedByWatcher() throws {
            try withSource { home, agent, client in
                try home.write("mount/config.json", #"{"n":1}"#)
                while try client.event()["value"]?.int != 1 {}
                try home.write("mount/config.json", "half")
                try agent.waitForLog("mount/config.json:1:1")
                // A poll may be reading the file, and the state is `refreshing` until it has finished.
                var value = try client.call("config.get", ["n"])
                while value["state"] == "refreshing" { value = try client.call("config.get", ["n"]) }
                #expect(value["value"] == 1)
                #expect(value["state"] == "stale")
            }
        }

        @Test("the files of a directory are merged in name order; each replacement of the directory makes one snapshot")
        func directory() throws {
            let settings = """
                { namespaces: { default: {
                    host: { directory: '@/host' }, remote: { file: { path: '@/mount' } } } } }
                """
            try AgentHome.with(settings: settings) { home in
                let mount = home.directory + "/mount"
                func replaceData(_ number: Int) throws {
                    try home.makeDirectory("mount/..generation\(number)")
                    try home.write("mount/..generation\(number)/10-a.json", "{\"a\":\(number),\"n\":0,\"hidden\":null}")
                    try home.write("mount/..generation\(number)/20-b.json", "{\"n\":\(number)}")
                    symlink("..generation\(number)", mount + "/..data_tmp")
                    rename(mount + "/..data_tmp", mount + "/..data")
                }
                for directory in ["host", "mount"] { try home.makeDirectory(directory) }
                try home.write("host/a.json", #"{"hidden":1,"host":1}"#)
                for name in ["10-a.json", "20-b.json"] { symlink("..data/" + name, mount + "/" + name) }
                try replaceData(1)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.refresh")
                try client.call("config.subscribe")
                for number in 1...10 {
                    if number > 1 { try replaceData(number) }
                    #expect(try client.event()["value"] == ["host": 1, "a": .int(number), "n": .int(number)])
                }
                let last = try client.call("config.get")["value"]
                rename(mount, mount + ".aside")
                #expect(try client.refusal("config.refresh").name == "upstreamFailed")
                try home.makeDirectory("mount")
                #expect(try client.refusal("config.refresh").name == "upstreamFailed")
                try home.write("mount/x.json", "[]")
                #expect(try client.refusal("config.refresh").name == "rejected")
                #expect(try client.call("config.get")["value"] == last)
                #expect(try agent.status()["lastError"]?["message"]?.string?.contains("mount/x.json") == true)
            }
        }

        @Test("the directory can be removed and created again")
        func directoryVanishes() throws {
            try withSource { home, _, client in
                for value in 1...3 {
                    try home.makeDirectory("mount")
                    try home.write("mount/config.json", "{\"n\":\(value)}")
                    while try client.event()["value"]?.int != value {}
                    try FileManager.default.removeItem(atPath: home.directory + "/mount")
                    #expect(try client.refusal("config.refresh").name == "upstreamFailed")
                    #expect(try client.call("config.get", ["n"])["value"]?.int == value)
                }
            }
        }
    }
}
