package import Glibc

/// A user without privileges, to whom the permissions of files apply. They do not limit root.
package let unprivilegedUser: uid_t = 65_534

/// Calls `body` with the file permissions of ``unprivilegedUser`` if this process is root. Only the calling thread is
/// affected (setfsuid(2)), so `body` must do its work on this thread.
/// - Parameter directory: a directory of the test, whose contents the user may list and read during the call
package func withoutPrivileges<Result>(in directory: String, _ body: () throws -> Result) throws -> Result {
    guard geteuid() == 0 else { return try body() }
    guard chmod(directory, 0o755) == 0 else { throw HarnessError.system("chmod \(directory)") }
    // Glibc's module for Swift does not have setfsuid.
    let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "setfsuid")
    let setFileUser = unsafeBitCast(symbol, to: (@convention(c) (uid_t) -> CInt).self)
    _ = setFileUser(unprivilegedUser)
    defer { _ = setFileUser(0) }
    return try body()
}
