import Foundation
import Synchronization
import TestSupport

/// A program of this package, run as a process of its own. What it prints is gathered, line by line where that is asked
/// for; every blocking call is made on a thread of its own.
final class SpawnedProgram: Sendable {
    /// How it ended.
    struct End: Sendable, Equatable {
        /// The exit status, as a shell tells it: 128 and the signal's number where a signal ended it.
        var status: Int32
        var output: String
        var errors: String
    }

    let identifier: Int32
    private let process: Mutex<Process>
    private let input: FileHandle
    private let output: GatheredOutput
    private let errors: GatheredOutput

    /// The directory that the package's products are in: the tests' own.
    static let products: String = {
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
    }()

    /// What `contrib/torture/sanitizers.sh` tells the programs that it looks at, where to report among it.
    static let sanitizerVariables = ProcessInfo.processInfo.environment.filter { name, _ in
        name == "LD_PRELOAD" || name.hasSuffix("SAN_OPTIONS")
    }

    /// Starts a program.
    /// - Parameters:
    ///   - path: its name within ``products``, `larder` for what is installed under this name, or an absolute path.
    ///   - environment: all of it; of the tests' own only what sanitizers are told is passed on.
    init(_ path: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        let process = Process()
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        let program = path == "larder" ? try Products.commandLine : "\(Self.products)/\(path)"
        process.executableURL = URL(fileURLWithPath: path.hasPrefix("/") ? path : program)
        process.arguments = arguments
        process.environment = environment.merging(Self.sanitizerVariables) { own, _ in own }
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        identifier = process.processIdentifier
        self.process = Mutex(process)
        self.input = input.fileHandleForWriting
        self.output = GatheredOutput(output.fileHandleForReading)
        self.errors = GatheredOutput(errors.fileHandleForReading)
    }

    /// Runs a program to its end.
    static func run(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input: String = ""
    ) async throws -> End {
        let program = try SpawnedProgram(path, arguments, environment: environment)
        try program.write(input)
        return await program.end()
    }

    /// Writes to its standard input and closes that.
    func write(_ text: String) throws {
        try input.write(contentsOf: Data(text.utf8))
        try input.close()
    }

    /// Sends it a signal.
    func signal(_ number: Int32) { kill(identifier, number) }

    /// Waits for the next line on its standard output; nil at its end.
    func line() async -> String? { await output.line() }

    /// Waits for the next line on its standard error; nil at its end.
    func errorLine() async -> String? { await errors.line() }

    /// Waits for its end. Lines that were read already are not part of the output.
    func end() async -> End {
        let (output, errors) = (await output.rest(), await errors.rest())
        let process = process.withLock { UncheckedProcess(process: $0) }
        let status = await onThread { () -> Int32 in
            process.process.waitUntilExit()
            let status = process.process.terminationStatus
            return process.process.terminationReason == .uncaughtSignal ? 128 + status : status
        }
        return End(status: status, output: output, errors: errors)
    }
}

/// Foundation's `Process` is not `Sendable`; once it runs, its `waitUntilExit` is all that is called, by one thread.
private struct UncheckedProcess: @unchecked Sendable {
    let process: Process
}

/// Reads a pipe on a thread of its own, from the program's start to its end.
private final class GatheredOutput: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isAtEnd = false
    }

    private let state = Mutex(State())
    private let changes: AsyncStream<Void>

    init(_ handle: FileHandle) {
        let (changes, continuation) = AsyncStream.makeStream(of: Void.self)
        self.changes = changes
        Thread.detachNewThread { [self] in
            while true {
                let data = handle.availableData
                state.withLock { state in
                    state.bytes += data
                    state.isAtEnd = data.isEmpty
                }
                continuation.yield()
                if data.isEmpty { return continuation.finish() }
            }
        }
    }

    func line() async -> String? {
        await wait { state in
            guard let end = state.bytes.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            defer { state.bytes.removeSubrange(...end) }
            return String(decoding: state.bytes[..<end], as: UTF8.self)
        }
    }

    func rest() async -> String {
        await wait { state in
            state.isAtEnd ? String(decoding: state.bytes, as: UTF8.self) : nil
        } ?? ""
    }

    private func wait(_ take: (inout State) -> String?) async -> String? {
        if let found = state.withLock({ take(&$0) }) { return found }
        for await _ in changes {
            if let found = state.withLock({ take(&$0) }) { return found }
        }
        return state.withLock { take(&$0) }
    }
}

/// Runs a blocking call on a thread of its own.
private func onThread<R: Sendable>(_ work: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: work()) }
    }
}
