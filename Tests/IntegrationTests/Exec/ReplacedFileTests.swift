import Foundation
import LarderClient
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

/// Tests of the metadata of a file that `larder render` replaces.
extension Integration.RenderTests {
    /// Runs `body` in a home with an agent whose value `a` is 1, a template that contains only this value, and a file
    /// `app.conf` with the content `old`.
    private func withOldFile(_ body: (AgentHome, _ file: String) throws -> Void) throws {
        try AgentHome.with(starting: true) { home in
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            try body(home, home.directory + "/app.conf")
        }
    }

    @Test("a replaced file keeps its ACL, so that its group gets no rights, and its user attributes", .needsAttributes)
    func attributes() throws {
        try withOldFile { home, file in
            try ExtendedAttribute.set("user.origin", of: file, to: [0, 255])
            try ExtendedAttribute.set("user.empty", of: file, to: [])
            try ExtendedAttribute.set(ExtendedAttribute.accessList, of: file, to: ExtendedAttribute.listForOneUser)
            // The new file has the list already when it is checked, and so has the previous file after a failure.
            let check =
                "python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], \"system.posix_acl_access\").hex())' {}"
            let failed = try larder(home, ["render", "t", "app.conf", "--check", check, "--exec", "false"])
            #expect(failed.end == .exit(1))
            let hexadecimal = ExtendedAttribute.listForOneUser.map { String(format: "%02x", $0) }.joined()
            #expect(failed.log.hasPrefix(hexadecimal), "\(failed.log)")
            for content in ["old", "1\n"] {
                #expect(try text(home, "app.conf") == content)
                #expect(
                    ExtendedAttribute.value(ExtendedAttribute.accessList, of: file) == ExtendedAttribute.listForOneUser)
                #expect(ExtendedAttribute.value("user.origin", of: file) == [0, 255])
                #expect(ExtendedAttribute.value("user.empty", of: file) == [])
                #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o660)
                #expect(try larder(home, ["render", "t", "app.conf"]).end == .exit(0))
            }
            #expect(try larder(home, ["render", "t", "app.conf", "--mode", "600"]).end == .exit(0))
            #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o600)
        }
    }

    @Test("a file without an ACL does not get the default ACL of its directory when it is replaced", .needsAttributes)
    func inheritedList() throws {
        try withOldFile { home, file in
            chmod(file, 0o640)
            try ExtendedAttribute.set(
                ExtendedAttribute.defaultList, of: home.directory, to: ExtendedAttribute.listForOneUser)
            #expect(try larder(home, ["render", "t", "app.conf"]).end == .exit(0))
            #expect(try text(home, "app.conf") == "1\n")
            #expect(ExtendedAttribute.value(ExtendedAttribute.accessList, of: file) == nil)
            #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o640)
        }
    }

    @Test("a replaced file keeps its group in a directory that passes its own group to new files", .needsRoot)
    func inheritedGroup() throws {
        try withOldFile { home, file in
            try home.makeDirectory("shared")
            let shared = home.directory + "/shared"
            chown(shared, 0, 54_321)
            chmod(shared, 0o2755)
            #expect(rename(file, shared + "/app.conf") == 0)
            chown(shared + "/app.conf", 12_345, getegid())
            chmod(shared + "/app.conf", 0o4750)
            #expect(try larder(home, ["render", "t", "shared/app.conf"]).end == .exit(0))
            let status = try status(home, "shared/app.conf")
            #expect((status.st_uid, status.st_gid) == (12_345, getegid()))
            #expect(status.st_mode & 0o7777 == 0o4750)
        }
    }

    @Test("a file that is a mount point is kept, and the error advises to mount its directory", .needsMount)
    func mountPoint() throws {
        try withOldFile { home, file in
            let mount = #"mount --bind app.conf app.conf && exec "$0" "$@""#
            let refused = try Command.run(
                "unshare",
                ["--mount", "sh", "-c", mount, Products.commandLine, "render", "t", "app.conf"]
                    + ["--socket", home.socket],
                environment: home.environment, directory: home.directory)
            #expect(refused.end == .exit(1))
            #expect(
                refused.log.hasPrefix("larder: cannot replace app.conf: ")
                    && refused.log.contains("mount its directory"),
                "\(refused.log)")
            #expect(try text(home, "app.conf") == "old")
            #expect(try names(home) == ["app.conf"])
        }
    }
}

@Suite("Metadata of files that image get and backup replace")
struct ReplacedFileTests {
    private static let image = TestImage(seed: 1, size: 1000)

    /// Copies an image to a file, as `larder image get -o` does.
    private func copyImage(to path: String, in directory: String) throws {
        let source = directory + "/blob"
        try Data(Self.image.bytes).write(to: URL(filePath: source))
        let file = ReceivedFile(open(source, O_RDONLY | O_CLOEXEC))
        let image = WireImage(
            digest: try require(WireDigest(Self.image.digest), "digest"), mediaType: "image/png", width: 16, height: 16,
            bytes: Self.image.bytes.count)
        try ImageFileCopy(source: file, path: source, image: image).toFile(path)
    }

    private func status(_ path: String) throws -> stat {
        var status = stat()
        guard lstat(path, &status) == 0 else { throw HarnessError.system("lstat") }
        return status
    }

    @Test("a file that is replaced by an image keeps its owner and mode", .needsRoot)
    func imageOwner() throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/copy"
            try Data("old".utf8).write(to: URL(filePath: path))
            chown(path, 12_345, 54_321)
            chmod(path, 0o2604)
            try copyImage(to: path, in: directory)
            #expect(try Data(contentsOf: URL(filePath: path)) == Data(Self.image.bytes))
            let status = try status(path)
            #expect((status.st_uid, status.st_gid) == (12_345, 54_321))
            #expect(status.st_mode & 0o7777 == 0o2604)
        }
    }

    @Test("a file that is replaced by an image or a backup keeps its ACL and user attributes", .needsAttributes)
    func accessList() throws {
        try withTemporaryDirectory { directory in
            for (name, replace) in [
                ("image", { try copyImage(to: $0, in: directory) }), ("backup", { try NewFile.replace($0, with: [1]) }),
            ] as [(String, (String) throws -> Void)] {
                let path = directory + "/" + name
                try Data("old".utf8).write(to: URL(filePath: path))
                try ExtendedAttribute.set("user.origin", of: path, to: [7])
                try ExtendedAttribute.set(ExtendedAttribute.accessList, of: path, to: ExtendedAttribute.listForOneUser)
                try replace(path)
                #expect(try Data(contentsOf: URL(filePath: path)) != Data("old".utf8))
                #expect(
                    ExtendedAttribute.value(ExtendedAttribute.accessList, of: path) == ExtendedAttribute.listForOneUser)
                #expect(ExtendedAttribute.value("user.origin", of: path) == [7])
                #expect(try status(path).st_mode & 0o7777 == 0o660)
            }
        }
    }

    @Test(
        "a replaced file keeps its SELinux label, but not the digests of its content",
        .enabled(if: ExtendedAttribute.labelsAreSupported, "needs CAP_SYS_ADMIN and a file system with labels in /tmp"))
    func label() throws {
        let label = Array("system_u:object_r:etc_t:s0\0".utf8)
        try withTemporaryDirectory { directory in
            for (name, replace) in [
                ("image", { try copyImage(to: $0, in: directory) }), ("backup", { try NewFile.replace($0, with: [1]) }),
            ] as [(String, (String) throws -> Void)] {
                let path = directory + "/" + name
                try Data("old".utf8).write(to: URL(filePath: path))
                try ExtendedAttribute.set(ExtendedAttribute.label, of: path, to: label)
                // The kernel may refuse a value that is no digest.
                try? ExtendedAttribute.set("security.ima", of: path, to: [1, 2])
                try replace(path)
                #expect(try Data(contentsOf: URL(filePath: path)) != Data("old".utf8))
                #expect(ExtendedAttribute.value(ExtendedAttribute.label, of: path) == label)
                #expect(ExtendedAttribute.value("security.ima", of: path) != [1, 2])
            }
        }
    }

    @Test("if a new file cannot get the owner of the replaced one, the old file is kept", .needsRoot)
    func impossibleOwner() throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/copy"
            try Data("old".utf8).write(to: URL(filePath: path))
            chmod(path, 0o644)
            chown(directory, unprivilegedUser, 0)
            try withoutPrivileges(in: directory) {
                let failure = #expect(throws: Failure.self) { try copyImage(to: path, in: directory) }
                #expect(failure?.message.hasPrefix("cannot set the owner of \(path): ") == true)
                #expect(failure?.message.contains("remove the file first") == true)
            }
            #expect(try Data(contentsOf: URL(filePath: path)) == Data("old".utf8))
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["blob", "copy"])
        }
    }

    @Test("a backup does not replace the file of another user, who could read it", .needsRoot)
    func backupOfOtherUser() throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/backup"
            try Data("old".utf8).write(to: URL(filePath: path))
            chown(path, unprivilegedUser, 0)
            let failure = #expect(throws: Failure.self) { try NewFile.replace(path, with: [1]) }
            #expect(failure?.message.contains("belongs to the user with the number 65534") == true)
            #expect(try Data(contentsOf: URL(filePath: path)) == Data("old".utf8))
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["backup"])
        }
    }
}
