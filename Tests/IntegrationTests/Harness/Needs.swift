import Glibc
import TestSupport
import Testing

/// Conditions of tests that need more than every host provides. If a condition is false, the test is skipped, and the
/// output has the comment.
extension Trait where Self == ConditionTrait {
    static var needsRoot: Self { .enabled(if: geteuid() == 0, "needs root") }

    static var needsMount: Self { .enabled(if: canMount, "needs the right to mount file systems") }
}

/// Whether a process can mount a file system. The attempt is made in a private mount namespace.
private let canMount =
    (try? Command.run("unshare", ["--mount", "mount", "-t", "tmpfs", "larder-test", "/tmp"]).end == .exit(0)) ?? false
