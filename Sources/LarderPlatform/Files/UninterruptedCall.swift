import Glibc

/// Makes a system call and repeats it while it fails with EINTR (signal(7)). On FUSE and network file systems any call
/// on a file may be interrupted, including rename(2) and mkdir(2).
///
/// Do not use this for close(2): the descriptor is closed even if the call is interrupted.
/// - Parameter call: returns a negative value and sets errno if it fails
/// - Returns: the result of the last call. If it failed, errno is the error of that call.
package func uninterrupted<Result: SignedInteger>(_ call: () -> Result) -> Result {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}
