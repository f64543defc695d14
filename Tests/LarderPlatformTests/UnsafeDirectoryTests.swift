import Glibc
import LarderPlatform
import TestSupport
import Testing

@Suite("Directories that other users could replace")
struct UnsafeDirectoryTests {
    private let root: TemporaryDirectory

    init() throws {
        root = try TemporaryDirectory()
        chmod(root.path, 0o755)
    }

    private func make(_ name: String, mode: mode_t = 0o755) -> String {
        let path = "\(root.path)/\(name)"
        mkdir(path, 0o700)
        chmod(path, mode)
        return path
    }

    /// Why a directory is refused; "" if it is not.
    private func refusal(of path: String) -> String {
        do throws(UnsafeDirectory) { try UnsafeDirectory.check(path) } catch { return error.description }
        return ""
    }

    @Test("each directory on the path may be writable by other users only with the sticky bit")
    func modes() {
        let outer = make("outer")
        let inner = make("outer/inner")
        #expect(refusal(of: inner).isEmpty)
        #expect(refusal(of: inner + "/new/state").isEmpty)
        for mode: mode_t in [0o777, 0o775, 0o757] {
            chmod(outer, mode)
            for path in [inner, inner + "/new/state", outer + "/new"] {
                let refusal = refusal(of: path)
                #expect(refusal.contains("\(outer) has mode 0\(String(mode, radix: 8))"), "\(refusal)")
                #expect(refusal.contains("chmod go-w \(outer), or: chmod +t \(outer)"), "\(refusal)")
            }
        }
        chmod(outer, 0o1777)
        #expect(refusal(of: inner).isEmpty)
    }

    @Test("a file that others can write to or replace is refused")
    func files() {
        func refusal(_ path: String) -> String {
            do throws(UnsafeDirectory) { try UnsafeDirectory.checkFile(path) } catch { return error.description }
            return ""
        }
        let outer = make("files")
        let file = outer + "/a.json"
        close(open(file, O_CREAT | O_WRONLY, 0o644))
        chmod(file, 0o644)
        #expect(refusal(file).isEmpty)
        #expect(refusal(outer + "/none.json").isEmpty)
        chmod(file, 0o664)
        #expect(refusal(file).hasSuffix("run: chmod go-w \(file)"))
        chmod(file, 0o644)
        chmod(outer, 0o777)
        #expect(refusal(file).contains("\(outer) has mode 0777, so other users could replace \(file)"))
    }

    @Test("the commands in a refusal quote a path with a space")
    func quotedPath() {
        let path = make("two words", mode: 0o777)
        let refusal = refusal(of: path)
        #expect(refusal.contains("chmod go-w '\(path)'"), "\(refusal)")
    }

    @Test("a path is followed through links, each of which is checked")
    func links() {
        let open = make("open", mode: 0o777)
        let target = make("open/target")
        _ = make("closed")
        let link = "\(root.path)/closed/link"
        for destination in [target, "../open/target", "../closed/../open/./target"] {
            unlink(link)
            symlink(destination, link)
            #expect(refusal(of: link).contains("\(open) has mode 0777"), "\(destination)")
            #expect(refusal(of: link + "/new").contains("\(open) has mode 0777"), "\(destination)")
        }
        chmod(open, 0o755)
        #expect(refusal(of: link).isEmpty)
        unlink(link)
        symlink("link", link)
        #expect(refusal(of: link + "/new").isEmpty)
    }

    @Test(
        "a directory or link of another user on the path is refused", .enabled(if: geteuid() == 0, "needs root"))
    func owners() {
        let own = make("own")
        let target = make("target", mode: 0o700)
        chown(own, 60200, 60200)
        let link = own + "/dir"
        symlink(target, link)
        lchown(link, 60200, 60200)
        #expect(refusal(of: link).contains("\(own) belongs to user 60200"))
        #expect(refusal(of: own + "/new").contains("\(own) belongs to user 60200"))
        chown(own, 0, 0)
        #expect(refusal(of: link).contains("\(link), a symbolic link on the path \(link), belongs to user 60200"))
        lchown(link, 0, 0)
        #expect(refusal(of: link).isEmpty)
        #expect(refusal(of: own + "/new").isEmpty)
    }
}
