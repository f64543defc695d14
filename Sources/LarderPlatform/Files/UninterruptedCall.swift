import Glibc

/// Makes a system call, and makes it again for as long as a signal interrupts it (signal(7)). On file systems that a
/// program or the network serves, any call on a file may be interrupted, rename(2) and mkdir(2) included.
///
/// close(2) is none for this: the descriptor is gone, whatever it returns.
/// - Parameter call: returns less than 0 and sets errno where it fails.
/// - Returns: what the last call returned; errno is that call's.
package func uninterrupted<Result: SignedInteger>(_ call: () -> Result) -> Result {
    while true {
        let result = call()
        if result >= 0 || errno != EINTR { return result }
    }
}

/// The same for a call that returns a pointer, such as opendir(3), and none where it fails.
package func uninterrupted<Result>(_ call: () -> Result?) -> Result? {
    while true {
        if let result = call() { return result }
        if errno != EINTR { return nil }
    }
}
