import Glibc
import LarderPlatform
import TestSupport
import Testing

@Suite("Paths without symbolic links")
struct RealPathTests {
    @Test("a file is below a directory only if it is after all symbolic links were followed")
    func below() throws {
        let root = try TemporaryDirectory()
        for name in ["schemas", "schemas/sub", "schemas-old"] { mkdir("\(root.path)/\(name)", 0o700) }
        for name in ["schemas/a", "schemas/sub/b", "schemas-old/c"] {
            close(open("\(root.path)/\(name)", O_WRONLY | O_CREAT, 0o600))
        }
        symlink("sub/b", "\(root.path)/schemas/inside")
        symlink("../schemas-old/c", "\(root.path)/schemas/outside")
        symlink("../schemas-old", "\(root.path)/schemas/directory")
        symlink("missing", "\(root.path)/schemas/dangling")
        symlink("schemas", "\(root.path)/link")
        func isBelow(_ name: String, _ directory: String = "schemas") -> Bool {
            RealPath.isBelow("\(root.path)/\(name)", directory: "\(root.path)/\(directory)")
        }
        #expect(isBelow("schemas/a") && isBelow("schemas/sub/b") && isBelow("schemas/inside"))
        #expect(isBelow("link/a") && isBelow("schemas/a", "link"))
        #expect(!isBelow("schemas/outside") && !isBelow("schemas/directory/c") && !isBelow("schemas-old/c"))
        #expect(!isBelow("schemas"))
        #expect(isBelow("schemas/dangling") && isBelow("schemas/none"))
    }
}
