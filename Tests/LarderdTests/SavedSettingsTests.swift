import Glibc
import LarderProtocol
import TestSupport
import Testing

@testable import larderd

@Suite("Saved settings")
struct SavedSettingsTests {
    private let file = "/etc/larder/larder.json"
    private let readAt = Timestamp(milliseconds: 1_700_000_000_000)
    private let text = Array("// all hosts\n{ log: { level: 'debug' } }\n".utf8)

    private func mode(_ path: String) throws -> mode_t {
        var status = stat()
        guard stat(path, &status) == 0 else { throw HarnessError.system("stat \(path)") }
        return status.st_mode & 0o7777
    }

    @Test("settings are read as they were written, from a file that only its owner can read")
    func roundTrip() throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory + "/state", settingsFile: file)
            #expect(saved.read() == nil)
            try saved.write(text, readAt: readAt, from: .main)
            #expect(saved.read()?.text == text)
            #expect(saved.read()?.readAt == readAt)
            #expect(saved.read()?.files == .main)
            #expect(saved.path.hasPrefix(directory + "/state/"))
            #expect(try mode(saved.path) == 0o600)
        }
    }

    @Test("the time of unchanged settings stays, and other settings replace them")
    func replacement() throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory, settingsFile: file)
            let later = Timestamp(milliseconds: readAt.milliseconds + 1)
            try saved.write(text, readAt: readAt, from: .main)
            try saved.write(text, readAt: later, from: .main)
            #expect(saved.read()?.readAt == readAt)
            try saved.write([], readAt: later, from: .main)
            #expect(saved.read()?.text == [])
            #expect(saved.read()?.readAt == later)
        }
    }

    @Test("settings are saved again if only the files that they come from have changed")
    func otherFiles() throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory, settingsFile: file)
            for files in [SettingsFiles.none, .main, .directory] {
                try saved.write(text, readAt: readAt, from: files)
                #expect(saved.read()?.files == files)
            }
        }
    }

    @Test("a file that was used before is missing unless a file of the same or a higher rank exists")
    func missingFiles() {
        let ranks = [SettingsFiles.none, .directory, .main]
        for (rank, files) in ranks.enumerated() {
            for (earlierRank, earlier) in ranks.enumerated() {
                #expect((files.problem(since: earlier, at: file) != nil) == (rank < earlierRank))
            }
        }
    }

    @Test("the settings of another file are not used")
    func otherFile() throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory, settingsFile: file)
            let other = SavedSettings(directory: directory, settingsFile: "/srv/larder.json")
            try saved.write(text, readAt: readAt, from: .main)
            #expect(other.read() == nil)
            // The path in the file decides, not the hash in its name.
            guard rename(saved.path, other.path) == 0 else { throw HarnessError.system("rename \(saved.path)") }
            #expect(other.read() == nil)
        }
    }

    @Test("settings in a directory that other users can write to, and behind a symbolic link, are not used")
    func unsafePlaces() throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory + "/state", settingsFile: file)
            try saved.write(text, readAt: readAt, from: .main)
            chmod(directory + "/state", 0o777)
            #expect(saved.read() == nil)
            #expect(throws: (any Error).self) { try saved.write([], readAt: readAt, from: .main) }
            chmod(directory + "/state", 0o700)
            #expect(saved.read()?.text == text)
            guard rename(saved.path, directory + "/moved") == 0, symlink(directory + "/moved", saved.path) == 0 else {
                throw HarnessError.system("replace \(saved.path)")
            }
            #expect(saved.read() == nil)
        }
    }

    @Test(
        "damaged files are not used",
        arguments: ["", "{}", "{}\n{}", "not JSON\n{}", #"{"settings":1,"readAt":1}"# + "\n{}"])
    func damage(_ content: String) throws {
        try withTemporaryDirectory { directory in
            let saved = SavedSettings(directory: directory, settingsFile: file)
            let stream = try #require(fopen(saved.path, "w"))
            fputs(content, stream)
            fclose(stream)
            #expect(saved.read() == nil)
        }
    }
}
